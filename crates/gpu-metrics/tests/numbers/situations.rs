//! Situations in which simple rules serve wrong numbers: exporters that are replaced, name pods
//! by turns, or change their labels, units and intervals; nodes without exporters; other
//! clusters. They are polled as the server does it, by replicas that start at different times.
//!
//! ```text
//! # an exporter is replaced
//! pods 0..4 each 1; starting 1600
//! 0..4 gpu=0 p# instance=a#: S15 +2# 60 ..300
//! 0..4 gpu=0 p# instance=b#: S15 +2# 60 320..
//! 0..900 = namespace sum 240?
//! ```
//!
//! `pods 0..4 each 2` are the pods p0 to p3, two on each of node-0 and node-1, one GPU each;
//! `pods 4..6 each 2 since 100` are two more, which start at 100. Further settings are those of
//! `notation.rs`, for all the time. A series has a scrape every 15 s, or every 60 (`S60`), or
//! every 60 from a time on (`S60@300`); so many seconds after zero (`+2`), times its number
//! (`+2#`); only each fourth (`/4`); with timestamps 60 s back (`late60`); and values with the
//! times of the scrapes. `100~` is 100 and 101 in turn. The first replica starts at -300, and one
//! more at each time of `starting`. All must have the expected values, and the same ones.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::answers::Answers;
use super::cases::Wanted;
use super::notation::{change, named, number, places};
use super::polled::{Line, detected, read};
use super::scene::{Scene, at, object, sample};
use gpu_metrics::batch::Sample;
use gpu_metrics::inventory::{Inventory, InventoryOrigin};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

mod table;

/// Values that differ by less than this share are equal.
const SAME: f64 = 0.01;

/// How long after its start a replica may differ from another, seconds.
const SETTLED: i32 = 30;

#[derive(Default)]
struct Situation<'a> {
    pods: Vec<&'a str>,
    settings: Vec<Vec<&'a str>>,
    starts: Vec<i32>,
    series: BTreeMap<SignalId, Vec<Line>>,
    wanted: Vec<(Range<i32>, Vec<Wanted<'a>>)>,
}

fn situation(text: &str) -> Situation<'_> {
    let mut of = Situation {
        starts: vec![-300],
        ..Situation::default()
    };
    for line in text.lines().filter(|line| !line.starts_with("//")) {
        if let Some((labels, content)) = line.split_once(": ") {
            for series in named(labels) {
                let samples = samples(content, series.number as f64);
                let lines = of.series.entry(series.signal).or_default();
                lines.push((series.labels, samples));
            }
        } else if let Some((during, values)) = line.split_once(" = ") {
            let (from, until) = during.split_once("..").unwrap();
            let during = number(from) as i32..number(until) as i32;
            let values = values.split("; ").map(Wanted::read);
            of.wanted.push((during, values.collect()));
        } else {
            for setting in line.split("; ") {
                let words: Vec<&str> = setting.split_whitespace().collect();
                match words[0] {
                    "pods" => of.pods.push(setting),
                    "starting" => of
                        .starts
                        .extend(words[1..].iter().map(|it| number(it) as i32)),
                    _ => of.settings.push(words),
                }
            }
        }
    }
    of
}

/// The samples of a series by its number, 25 minutes before zero and later.
fn samples(content: &str, place: f64) -> Vec<Sample> {
    let (mut scrapes, mut phase, mut late, mut each) = (vec![(f64::MIN, 15.0)], 0.0, 0.0, 1);
    let mut values: Vec<(&str, Range<f64>)> = Vec::new();
    for word in content.split_whitespace() {
        match word.split_at(1) {
            ("S", secs) => {
                let (secs, from) = secs.split_once('@').unwrap_or((secs, "-1e9"));
                scrapes.push((number(from), number(secs)));
            }
            ("+", secs) if secs.ends_with('#') => phase = place * number(&secs[..secs.len() - 1]),
            ("+", secs) => phase = number(secs),
            ("/", of) => each = number(of) as usize,
            ("l", secs) => late = number(&secs[3..]),
            _ if word.contains("..") => {
                let (from, until) = word.split_once("..").unwrap();
                let or = |text: &str, other| if text.is_empty() { other } else { number(text) };
                values.last_mut().unwrap().1 = or(from, -1e9)..or(until, 1e9);
            }
            _ => values.push((word, -1e9..1e9)),
        }
    }
    let mut all = Vec::new();
    let (mut time, mut count) = (phase - 1500.0, 0_usize);
    while time < 2000.0 {
        count += 1;
        let value = values.iter().find(|(_, during)| during.contains(&time));
        if let Some((value, _)) = value.filter(|_| count.is_multiple_of(each)) {
            let turn = if value.ends_with('~') {
                (count % 2) as f64
            } else {
                0.0
            };
            let value = number(value.trim_end_matches('~')) + turn;
            all.push(sample(time - late, value));
        }
        let scrape = scrapes.iter().rfind(|(from, _)| *from <= time);
        time += scrape.unwrap().1;
    }
    all
}

impl Situation<'_> {
    /// The cluster at a time; without pods there is none.
    fn cluster(&self, now: i32) -> Inventory {
        let mut all: Vec<(usize, usize, Option<f64>)> = Vec::new();
        for line in &self.pods {
            let words: Vec<&str> = line.split_whitespace().collect();
            let since = words.get(5).map(|since| number(since));
            if since.is_none_or(|since| since <= f64::from(now)) {
                let each = number(words[3]) as usize;
                all.extend(places(words[1]).map(|place| (place, place / each, since)));
            }
        }
        let scene = Scene::new(Policy::default());
        let scene = scene.pods(all.iter().map(|(place, ..)| format!("n/p{place}")));
        let mut inventory = Arc::unwrap_or_clone(scene.inventory);
        if all.is_empty() {
            inventory.authority = InventoryOrigin::Series;
            return inventory;
        }
        inventory.nodes.clear();
        for (place, node, since) in all {
            let node = format!("node-{node}");
            if inventory.nodes.iter().all(|it| *it.name != *node) {
                inventory.nodes.push(object(&node));
            }
            let mut pods = inventory.pods.iter_mut();
            let pod = pods.find(|pod| *pod.name == *format!("p{place}")).unwrap();
            pod.node = Some(node.as_str().into());
            pod.started = since.map(at);
            pod.running_since = Some(at(since.unwrap_or(-3600.0)));
        }
        inventory
            .nodes
            .sort_by(|one, other| one.name.cmp(&other.name));
        let settings = self.settings.iter();
        settings.for_each(|words| change(&mut inventory, words));
        inventory
    }

    /// Polls a replica that starts at a time. Returns its values, by time and expectation.
    fn run(&self, start: i32) -> BTreeMap<i32, Vec<Option<f64>>> {
        let mut scene = detected(None);
        let until = self.wanted.iter().map(|(during, _)| during.end).max();
        let mut all = BTreeMap::new();
        for now in (start..until.unwrap()).step_by(5) {
            let time = at(f64::from(now));
            for (signal, lines) in &self.series {
                if scene.pipeline.is_wanted(*signal, time) {
                    read(&mut scene, *signal, lines, f64::from(now));
                }
            }
            let inventory = self.cluster(now);
            if now == start || inventory.pods.len() != scene.inventory.pods.len() {
                scene.inventory = Arc::new(inventory);
            }
            let answers = Answers::new(scene.snapshot_at(time));
            let wanted = self.wanted.iter().flat_map(|(_, wanted)| wanted);
            let values = wanted.map(|it| answers.value_at(&it.object, &it.metric, time));
            all.insert(now, values.map(|it| it.map(|it| it.value)).collect());
        }
        all
    }

    fn wrong(&self) -> Vec<String> {
        let first = self.run(self.starts[0]);
        let mut wrong = Vec::new();
        for start in &self.starts {
            let values = self.run(*start);
            for (now, values) in values.range(start + SETTLED..) {
                let wanted = self.wanted.iter();
                let wanted =
                    wanted.flat_map(|(during, all)| all.iter().map(move |it| (during, it)));
                for (((during, wanted), value), other) in
                    wanted.zip(values).zip(first.get(now).unwrap_or(values))
                {
                    let is_right = !during.contains(now) || wanted.is(*value, SAME);
                    let is_same = value.is_some() == other.is_some()
                        && value
                            .zip(*other)
                            .is_none_or(|(one, other)| (one - other).abs() <= SAME * other);
                    if !is_right || !is_same {
                        let Wanted { object, metric, .. } = wanted;
                        wrong.push(format!(
                            "{now} s, from {start}: {metric} of {object} is {value:?}, {other:?}"
                        ));
                    }
                }
            }
        }
        wrong
    }
}

#[test]
fn each_situation_has_its_values() {
    let mut wrong = Vec::new();
    for text in table::TABLE.split("\n# ").skip(1) {
        let (title, text) = text.split_once('\n').unwrap();
        let of = situation(text.trim_end()).wrong();
        wrong.extend(of.iter().take(8).map(|of| format!("{title}: {of}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
