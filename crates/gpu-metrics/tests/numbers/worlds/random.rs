//! Random worlds, in the notation of cases.

use std::fmt::Write;
use std::ops::Range;

use crate::series::random;

/// The most GPUs at first.
const MOST: usize = 16;

/// Replicas start before, and pods end after it: so all know when.
const KNOWN: f64 = 250.0;

const ALWAYS: Range<f64> = -9999.0..9999.0;

struct Dice {
    seed: u64,
    count: u64,
}

impl Dice {
    fn share(&mut self) -> f64 {
        self.count += 1;
        random((self.seed, self.count))
    }

    /// A whole number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        (self.share() * bound as f64) as usize
    }

    /// A whole number of a range.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        (low + self.share() * (high - low)).round()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn is(&mut self, share: f64) -> bool {
        self.share() < share
    }

    /// A part of so many.
    fn some(&mut self, count: usize) -> Range<usize> {
        let start = self.below(count);
        start..start + 1 + self.below(count - start)
    }

    /// A period that ends in time for replicas to agree, or lasts.
    fn period(&mut self) -> Range<f64> {
        let start = self.between(0.0, 500.0);
        start..start + self.pick(&[20.0, 45.0, 90.0, 200.0, 9999.0])
    }
}

/// Pods in a row on one Node.
struct Pods {
    pods: Range<usize>,
    node: usize,
    lives: Range<f64>,
}

struct Gpu {
    node: usize,
    /// The pods that its series name, and when.
    named: Vec<(Range<f64>, Option<usize>)>,
    /// When it is silent.
    silent: Vec<Range<f64>>,
    load: &'static str,
}

/// How an exporter is scraped: more labels, and the words before values.
struct Scrape {
    node: usize,
    labels: String,
    words: String,
}

struct World {
    dice: Dice,
    nodes: usize,
    /// The GPUs of each pod.
    gpus: usize,
    pods: Vec<Pods>,
    devices: Vec<Gpu>,
    scrapes: Vec<Scrape>,
    store: Vec<String>,
}

/// The text of a world.
pub(super) fn world(seed: u64) -> String {
    let mut dice = Dice { seed, count: 0 };
    let gpus = dice.pick(&[1, 1, 1, 2, 4]);
    let each = 1 + dice.below(3);
    let nodes = 1 + dice.below(MOST / (gpus * each));
    let mut world = World {
        dice,
        nodes,
        gpus,
        pods: Vec::new(),
        devices: Vec::new(),
        scrapes: Vec::new(),
        store: Vec::new(),
    };
    for node in 0..nodes {
        world.join(node, each, ALWAYS);
    }
    for _ in 0..=world.dice.below(4) {
        world.happen();
    }
    world.text()
}

impl World {
    /// Adds a Node with pods on its GPUs.
    fn join(&mut self, node: usize, each: usize, lives: Range<f64>) {
        let first = self.pods.last().map_or(0, |last| last.pods.end);
        for pod in first..first + each {
            for _ in 0..self.gpus {
                let loads = ["40~20", "40~20", "30~60", "90~9", "10", "0"];
                let load = self.dice.pick(&loads);
                self.devices.push(Gpu {
                    node,
                    named: vec![(lives.clone(), Some(pod))],
                    silent: Vec::new(),
                    load,
                });
            }
        }
        self.pods.push(Pods {
            pods: first..first + each,
            node,
            lives,
        });
        self.scrape(node, "job=d".to_owned(), None);
    }

    fn scrape(&mut self, node: usize, labels: String, secs: Option<f64>) {
        let dice = &mut self.dice;
        let secs = secs.unwrap_or(dice.pick(&[5.0, 10.0, 15.0, 15.0, 15.0, 30.0, 60.0]));
        let (phase, jitter) = (dice.share() * secs, dice.pick(&[0.01, 0.05, 0.5]));
        let words = format!("S{secs} +{phase:.2} jitter{jitter}");
        self.scrapes.push(Scrape {
            node,
            labels,
            words,
        });
    }

    fn happen(&mut self) {
        let (during, some) = (self.dice.period(), self.dice.some(self.nodes));
        let source = self.dice.pick(&["", "", "b"]);
        let secs = self.dice.between(1.0, 90.0);
        let (start, end) = (during.start, during.end);
        let until = start + 2.0 * secs;
        match self.dice.below(14) {
            0 => self.store.push(format!("lag {secs} {source}")),
            1 => self
                .store
                .push(format!("lag {secs} {source} {start}..{end}")),
            2 => self.store.push(format!("jitter {}", secs / 6.0)),
            3 => self.store.push(format!("stall {source} {start}..{until}")),
            4 => self.store.push(format!("down {start}..{until}")),
            5 => self.store.push(format!("refused {start}..{until}")),
            6 | 7 => self.be_silent(&some, &during),
            8 => self.unlabel(&some, &during),
            9 => {
                let words = [" drop0.05", " clock-49", " clock20", " late40"];
                let word = self.dice.pick(&words);
                let scrapes = self.scrapes.iter_mut();
                let scrapes = scrapes.filter(|it| some.contains(&it.node));
                scrapes.for_each(|it| it.words += word);
            }
            10 => self.scrape_again(&some),
            11 => self.end_pods(start),
            12 => self.replace(start),
            _ => {
                self.join(self.nodes, 1, start..ALWAYS.end);
                let new = self.devices.iter_mut().filter(|it| it.node == self.nodes);
                new.for_each(|gpu| gpu.silent.push(ALWAYS.start..start + secs));
                self.nodes += 1;
            }
        }
    }

    fn be_silent(&mut self, some: &Range<usize>, during: &Range<f64>) {
        let is_whole = self.dice.is(0.7);
        for gpu in self.devices.iter_mut().filter(|it| some.contains(&it.node)) {
            if is_whole || self.dice.is(0.3) {
                gpu.silent.push(during.clone());
            }
        }
    }

    /// Exporters continue without pod labels.
    fn unlabel(&mut self, some: &Range<usize>, during: &Range<f64>) {
        for gpu in self.devices.iter_mut().filter(|it| some.contains(&it.node)) {
            let named = std::mem::take(&mut gpu.named);
            gpu.named = named
                .iter()
                .flat_map(|(at, pod)| {
                    let parts = without(at, std::slice::from_ref(during)).into_iter();
                    parts.map(|at| (at, *pod))
                })
                .collect();
            gpu.named.push((during.clone(), None));
        }
    }

    /// A second scraper, job or Prometheus.
    fn scrape_again(&mut self, some: &Range<usize>) {
        let labels = self.dice.pick(&["job=d", "job=slow", "job=d prometheus=b"]);
        let mut known = self.scrapes.iter();
        if labels != "job=d" && known.any(|it| it.labels == labels) {
            return;
        }
        let secs = (labels == "job=slow").then_some(60.0);
        for node in some.clone() {
            self.scrape(node, labels.to_owned(), secs);
        }
    }

    /// Pods end; their labels stay for some time.
    fn end_pods(&mut self, at: f64) {
        let at = at.max(KNOWN);
        let late = self.dice.pick(&[0.0, 0.0, 40.0]);
        let place = self.dice.below(self.pods.len());
        let ended = &mut self.pods[place];
        if ended.lives.end < ALWAYS.end || ended.lives.start >= at {
            return;
        }
        ended.lives.end = at;
        for gpu in self.devices.iter_mut().filter(|it| it.node == ended.node) {
            for (during, pod) in &mut gpu.named {
                if pod.is_some_and(|pod| ended.pods.contains(&pod)) {
                    during.end = during.end.min(at + late);
                }
            }
            gpu.named.push((at + late..ALWAYS.end, None));
        }
    }

    /// Pods end, and others start on their GPUs.
    fn replace(&mut self, at: f64) {
        let (count, at) = (self.pods.len(), at.max(KNOWN));
        self.end_pods(at);
        let Some(ended) = self.pods.iter().find(|it| it.lives.end == at) else {
            return;
        };
        let (old, node, since) = (ended.pods.clone(), ended.node, at + 1.0);
        let first = self.pods[count - 1].pods.end;
        let named = since + self.dice.between(5.0, 75.0);
        for gpu in self.devices.iter_mut().filter(|it| it.node == node) {
            let last = gpu.named.iter().filter_map(|(_, pod)| *pod).next_back();
            let Some(pod) = last.filter(|pod| old.contains(pod)) else {
                continue;
            };
            for (during, _) in &mut gpu.named {
                during.end = during.end.min(named);
            }
            gpu.named
                .push((named..ALWAYS.end, Some(first + pod - old.start)));
        }
        self.pods.push(Pods {
            pods: first..first + old.len(),
            node,
            lives: since..ALWAYS.end,
        });
    }

    fn text(mut self) -> String {
        let mut text = format!("starting {}\n", 5.0 * self.dice.between(0.0, KNOWN / 5.0));
        for Pods { pods, node, lives } in &self.pods {
            let (from, until, gpus) = (pods.start, pods.end, self.gpus);
            write!(text, "pods {from}..{until} on {node} gpus {gpus}").unwrap();
            writeln!(text, " since {} until {}", lives.start, lives.end).unwrap();
        }
        self.store.iter().for_each(|it| text += &format!("{it}\n"));
        for (number, gpu) in self.devices.iter().enumerate() {
            let node = gpu.node;
            for scrape in self.scrapes.iter().filter(|it| it.node == node) {
                let Scrape { labels, words, .. } = scrape;
                for (during, pod) in &gpu.named {
                    let heard = without(during, &gpu.silent).into_iter();
                    let values = heard.map(|it| format!(" {} {}..{}", gpu.load, it.start, it.end));
                    let values: String = values.collect();
                    let pod = pod.map_or(String::new(), |pod| format!("p{pod}"));
                    if !values.is_empty() {
                        write!(text, "G{number} {pod} instance=i{node} ").unwrap();
                        write!(text, "Hostname=node-{node} {labels}: ").unwrap();
                        writeln!(text, "{words}{values}").unwrap();
                    }
                }
            }
        }
        text
    }
}

/// The parts of a period that are in none of the others.
fn without(period: &Range<f64>, others: &[Range<f64>]) -> Vec<Range<f64>> {
    let mut parts = vec![period.clone()];
    parts.retain(|it| it.start < it.end);
    for other in others {
        let cut = |part: Range<f64>| {
            let parts = [
                part.start..part.end.min(other.start),
                part.start.max(other.end)..part.end,
            ];
            parts.into_iter().filter(|it| it.start < it.end)
        };
        parts = parts.into_iter().flat_map(cut).collect();
    }
    parts
}
