//! The description of a world: a row of text, `name | fleets | settings and weather`.
//!
//! A fleet begins with its exporters: `6 S60 I30 G4 b` are six, scraped every 60 s, with
//! readings every 30 s and four GPUs each, in Prometheus `b`; `J0.5` is the jitter of scrapes,
//! `+3` a second scraper 3 s later. Times are in seconds: `900..` is from 900 on, and `1000/40`
//! begins at 1000 and goes on every 40. A world lasts 40 minutes unless `secs` says otherwise,
//! and the second replica starts in the middle. `drawn SEED RESTART` is a random world of
//! twenty minutes that broke a promise.
//!
//! Targets, pods and devices are numbered in the order in which they are created, those of
//! fleets first. Numbers that do not exist have no effect.
//!
//! | weather | what happens |
//! |---|---|
//! | `lag 30 of b 200..400` | samples (of a source) become visible so late |
//! | `jitter 5` | samples are late by a further random time up to this |
//! | `stall a 900..1080` | no sample of a source becomes visible until the end |
//! | `drop 0.03` | this share of scrapes fails |
//! | `markers` | a failed scrape leaves a sample that is not a number |
//! | `silent 0..5 900..` | exporters are silent |
//! | `frozen 0..1 900..`, `frozen JOB 900..` | exporters repeat their readings; those of a job |
//! | `unlabelled 0..1 900..` | exporters continue without pod labels |
//! | `profiled 0..8 900` | GPUs have the profiling field, and percentages until then |
//! | `down 330..530` | Prometheus is down: no scrapes, no answers |
//! | `refused 0 900..960` | queries of a polled signal, or `all`, fail |
//! | `clock 0..1 40 500..` | timestamps are of a wrong clock |
//! | `gpus-lost 0..1 900..` | the driver loses GPUs; the target's others continue |
//! | `load 0..4 90` | the load of GPUs, in percent |
//! | `jump 90 at 700` | from then on every GPU has this load |
//! | `end 6..10 1180/30 labels 70` | pods end; their labels stay for some time |
//! | `leave 0..1 700` | targets are removed with their nodes and pods |
//! | `start w 0..5 800/30 unseen 10..30` | pods start on the GPUs of targets, whose series name them after a time |
//! | `join 2 S60 1502/1 unseen 5..15` | new nodes with a pod each |
//! | `job NAME 60` | another job scrapes the same exporters |
//! | `pair` | another Prometheus, `b`, scrapes them for the same jobs |
//! | `shared 0..5 3` | so many pods share each GPU of targets |

use std::ops::Range;

use super::FOREVER;

/// Exporters of one kind, with the pods on their GPUs: one target for each node, and
/// one pod for each target, which holds all of its GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fleet {
    /// The Deployment of the pods.
    pub(super) workload: &'static str,
    /// The scrape job.
    pub(super) job: &'static str,
    /// The Prometheus that scrapes it, as an external label.
    pub(super) source: &'static str,
    pub(super) targets: usize,
    /// GPUs for each target.
    pub(super) gpus: usize,
    /// The scrape interval, in seconds.
    pub(super) scrape: f64,
    /// How often the exporter reads its GPUs, in seconds.
    pub(super) renew: f64,
    /// A second scraper writes the same series this many seconds later.
    pub(super) second: Option<f64>,
    /// When in its interval a target is scraped; `None`: at random.
    pub(super) phase: Option<f64>,
    /// Jitter of scrape times, in seconds.
    pub(super) jitter: f64,
    /// Labels of the target on its series.
    pub(super) naming: Naming,
}

/// The labels that distinguish the series of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Naming {
    /// `instance` and the node.
    #[default]
    Full,
    /// All have one `instance` (federation, agents); the node label remains.
    OneInstance,
    /// `instance` was dropped; the node label remains.
    NodeOnly,
    /// Neither `instance` nor the node.
    Nothing,
}

/// An event, or a condition that lasts.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    pub(super) what: &'static str,
    /// A job, a source or a workload; `*` is any.
    pub(super) name: &'static str,
    /// Targets, pods or devices.
    pub(super) of: Range<usize>,
    pub(super) during: Range<f64>,
    /// Seconds, a share, or whatever the word says.
    pub(super) number: f64,
    pub(super) every: f64,
    /// How late labels are, in seconds.
    pub(super) late: Range<f64>,
    pub(super) fleet: Option<Fleet>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) name: &'static str,
    /// The seed of all random choices.
    pub(super) seed: u64,
    /// Its duration, in seconds.
    pub(super) secs: f64,
    /// The poll interval, in seconds; `None`: as the server chooses.
    poll: Option<f64>,
    /// `gpu.window`, in seconds.
    pub(super) window: Option<u64>,
    /// How much the load of each GPU varies, as a share of it.
    pub(super) swing: f64,
    /// The start of the second replica.
    pub(super) restart: f64,
    /// The fleets that are there at the beginning.
    pub(super) fleets: Vec<Fleet>,
    /// Its conditions and events.
    pub(super) weather: Vec<Weather>,
}

impl World {
    pub(super) fn read(row: &'static str) -> Self {
        let mut cells = row.split('|').map(str::trim);
        let mut next = || cells.next().unwrap_or_else(|| panic!("{row}"));
        let (name, fleets, items) = (next(), next(), next());
        let fleets = fleets.split(", ").map(|text| fleet(&words(text)));
        let mut world = Self {
            name,
            seed: 1,
            secs: 2400.0,
            poll: None,
            window: None,
            swing: 0.0,
            restart: 1200.0,
            fleets: fleets.collect(),
            weather: Vec::new(),
        };
        for item in items.split("; ").filter(|item| !item.is_empty()) {
            match words(item)[..] {
                ["swing"] => world.swing = 0.3,
                ["swing", share] => world.swing = number(share),
                ["secs", secs] => (world.secs, world.restart) = (number(secs), number(secs) / 2.0),
                ["restart", at] => world.restart = number(at),
                ["window", secs] => world.window = Some(number(secs) as u64),
                ["poll", secs] => world.poll = Some(number(secs)),
                ["drawn", seed, restart] => {
                    (world.seed, world.secs) = (number(seed) as u64, 1200.0);
                    world.restart = number(restart);
                }
                ["spikes"] => world.weather.extend((-15..24).map(spike)),
                ["stalls"] => world.weather.extend((0..20).map(stall)),
                ref words => world.weather.push(weather(words)),
            }
        }
        world
    }

    /// The weather of a kind.
    pub(super) fn all(&self, what: &'static str) -> impl Iterator<Item = &Weather> {
        self.weather.iter().filter(move |it| it.what == what)
    }

    /// The lag of a source at a time, without jitter and stalls.
    pub(super) fn lag(&self, source: &str, at: f64) -> f64 {
        let of = self.all("lag");
        let of = of.filter(|it| [source, "*"].contains(&it.name) && it.during.contains(&at));
        of.map(|it| it.number).last().unwrap_or(0.5)
    }

    /// How much later than the lag samples may be.
    pub(super) fn lag_jitter(&self) -> f64 {
        let of = self.all("jitter").map(|it| it.number);
        of.fold(0.0, f64::max)
    }

    /// The times of outages, delays and clock changes.
    pub(super) fn outages(&self) -> impl Iterator<Item = Range<f64>> {
        let exporters: usize = self.fleets.iter().map(|fleet| fleet.targets).sum();
        self.weather.iter().filter_map(move |it| {
            let during = it.during.clone();
            let is_step = during.start > -FOREVER || during.end < FOREVER;
            match it.what {
                "down" | "refused" => Some(during),
                "stall" => Some(during.start..during.end + self.lag(it.name, during.end)),
                "lag" if is_step => Some(during.start..during.end + it.number),
                "clock" if is_step => Some(during),
                "silent" if it.of.len() >= exporters => Some(during),
                _ => None,
            }
        })
    }

    /// Whether a query for the signal at this index fails.
    pub(super) fn refuses(&self, place: usize, at: f64) -> bool {
        let mut of = self.weather.iter().filter(|it| it.during.contains(&at));
        of.any(|it| {
            let is_of = it.name == "all" || it.number == place as f64;
            it.what == "down" || (it.what == "refused" && is_of)
        })
    }

    /// Whether there is weather of a kind.
    pub(super) fn has(&self, what: &'static str) -> bool {
        self.all(what).next().is_some()
    }

    /// The time between polls: as set, or else as the server chooses.
    pub(super) fn poll(&self) -> f64 {
        let scrapes = self.fleets.iter().map(|fleet| fleet.scrape);
        let quickest = scrapes.fold(FOREVER, f64::min);
        self.poll
            .unwrap_or_else(|| (quickest / 3.0).clamp(1.0, 5.0))
    }
}

/// In every fourth period of a hundred seconds the store has a large lag.
fn spike(hundred: i32) -> Weather {
    let from = f64::from(hundred) * 100.0;
    let secs = if hundred % 4 == 0 { "30" } else { "2" };
    Weather {
        during: from..from + 100.0,
        ..weather(&["lag", secs])
    }
}

/// Every five minutes the store stalls.
fn stall(place: i32) -> Weather {
    let start = 100.0 + 300.0 * f64::from(place);
    Weather {
        during: start..start + 45.0,
        ..weather(&["stall", "a"])
    }
}

fn fleet(words: &[&'static str]) -> Fleet {
    let mut fleet = Fleet {
        workload: "w",
        job: "dcgm",
        source: "a",
        targets: number(words[0]) as usize,
        gpus: 1,
        scrape: 15.0,
        renew: 15.0,
        second: None,
        phase: None,
        jitter: 0.05,
        naming: Naming::Full,
    };
    for word in &words[1..] {
        match (*word, word.split_at(1)) {
            ("b", _) => fleet.source = "b",
            ("v", _) => fleet.workload = "v",
            ("slow", _) => fleet.job = "slow",
            // Scrapes shortly before and after an instant.
            ("edge", _) => (fleet.phase, fleet.jitter) = (Some(-0.1), 0.2),
            ("OneInstance", _) => fleet.naming = Naming::OneInstance,
            ("NodeOnly", _) => fleet.naming = Naming::NodeOnly,
            ("Nothing", _) => fleet.naming = Naming::Nothing,
            (_, ("S", secs)) => (fleet.scrape, fleet.renew) = (number(secs), number(secs)),
            (_, ("I", secs)) => fleet.renew = number(secs),
            (_, ("J", secs)) => fleet.jitter = number(secs),
            (_, ("G", gpus)) => fleet.gpus = number(gpus) as usize,
            (_, ("+", secs)) => fleet.second = Some(number(secs)),
            _ => panic!("{words:?}"),
        }
    }
    fleet
}

fn weather(words: &[&'static str]) -> Weather {
    let mut it = Weather {
        what: words[0],
        name: "*",
        of: 0..0,
        during: -FOREVER..FOREVER,
        number: 0.0,
        every: 0.0,
        late: 0.0..0.0,
        fleet: None,
    };
    let is_of_some = match words {
        ["frozen", of, ..] => of.contains(".."),
        [what, ..] => !["lag", "stall", "down", "refused", "join"].contains(what),
        [] => false,
    };
    let mut rest = words[1..].iter();
    if words[0] == "join" {
        let end = words.len() - 3;
        it.fleet = Some(fleet(&words[1..end]));
        rest = words[end..].iter();
    }
    while let Some(word) = rest.next() {
        let mut next = || *rest.next().unwrap();
        match *word {
            "of" => it.name = next(),
            "at" => it.during.start = number(next()),
            "unseen" => it.late = span(next()),
            "labels" => it.late = number(next())..0.0,
            text if text.contains("..") && is_of_some && it.of.is_empty() => {
                it.of = span(text).start as usize..span(text).end as usize;
            }
            text if text.contains("..") => it.during = span(text),
            text if text.contains('/') => {
                let (start, every) = text.split_once('/').unwrap();
                (it.number, it.every) = (number(start), number(every));
            }
            "never" => it.number = -FOREVER,
            text => match text.parse() {
                Ok(number) => it.number = number,
                Err(_) => it.name = text,
            },
        }
    }
    it
}

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// `900..1200`, `900..` or `..`, in seconds.
fn span(text: &str) -> Range<f64> {
    let (start, end) = text.split_once("..").unwrap();
    let or = |text: &str, default| match text {
        "" => default,
        _ => number(text),
    };
    or(start, -FOREVER)..or(end, FOREVER)
}
