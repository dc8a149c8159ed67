//! Reads cases from text.
//!
//! ```text
//! # a GPU handed over counts for the pod that its labels name
//! window 80; pods new
//! A old: 90 90
//! A: · · 0
//! A new: · · · 10 10 10
//! = new 10; old -; cluster 35
//! at 31; pods old = old 90
//!
//! # an exporter is replaced
//! pods 0..4 each 1; starting 1600
//! 0..4 gpu=0 p# instance=a#: S15 +2# 60 ..300
//! 0..4 gpu=0 p# instance=b#: S15 +2# 60 320..
//! 0..900 = namespace sum 240?
//! ```
//!
//! A line with a colon is a series: a signal (if none, the memory copy utilisation), a
//! device, its pod in the namespace `n`, further labels, and a value for each scrape; `40*5`
//! is a value five times, and `40,41*5` two in turn. `0..3 G# p#` are three series, with numbers
//! in place of `#`. A line with ` = ` has expectations, with further settings before it.
//!
//! Values after an `S15` have times: a scrape every 15 s, or every 60 (`S60`), or every 60
//! from a time on (`S60@300`); so many seconds after zero (`+2`), times its number (`+2#`); only
//! each fourth (`/4`); with timestamps 60 s back (`late60`); `60 ..300` until then. `100~` is 100
//! and 101 in turn. `pods 0..4 each 2` are p0 to p3, two on each of node-0 and node-1, one GPU
//! each; `since 100` is their start. Replicas poll from -300 and from each `starting` on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use super::polled::Line;
use super::scene::{Scene, at, cluster, object, sample, samples};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample};
use gpu_metrics::inventory::{Inventory, PodPhase};
use gpu_metrics::policy::{DeviceValue, Policy, Threshold};
use gpu_metrics::signal::SignalId;

/// The cases of a table: the fact, and its lines, each after a blank.
pub(super) fn cases(table: &str) -> impl Iterator<Item = (&str, Vec<String>)> {
    table.split("\n# ").skip(1).map(|case| {
        let (fact, lines) = case.split_once('\n').unwrap();
        let lines = lines.lines().filter(|line| !line.starts_with("//"));
        (fact, lines.map(|line| format!(" {line}")).collect())
    })
}

/// Passes each line of expectations of a table to `look`, which returns those that are not
/// met, with its case.
pub(super) fn check(
    table: &str,
    policy: &Policy,
    mut look: impl FnMut(&Case<'_>, &[&str]) -> Vec<String>,
) {
    let mut wrong = Vec::new();
    for (fact, lines) in cases(table) {
        for line in &lines {
            if let Some((more, expected)) = line.split_once(" = ") {
                let expected: Vec<&str> = expected.split("; ").collect();
                let case = Case::read(policy.clone(), &lines, more);
                let unmet = look(&case, &expected).into_iter();
                wrong.extend(unmet.map(|unmet| format!("{fact}:{more} {unmet}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the lines of a case describe.
pub(super) struct Case<'a> {
    policy: Policy,
    pub(super) series: Vec<(SignalId, Line)>,
    /// Pods by number, the number on a Node, and their start.
    fleet: Vec<(Range<usize>, usize, Option<f64>)>,
    settings: Vec<Vec<&'a str>>,
    /// The time of the question, if it is given.
    pub(super) now: Option<Timestamp>,
    /// When further replicas start.
    pub(super) starts: Vec<i32>,
}

impl<'a> Case<'a> {
    pub(super) fn read(policy: Policy, lines: &'a [String], more: &'a str) -> Self {
        let lines = lines.iter().map(String::as_str);
        let lines = lines.filter(|line| !line.contains(" = "));
        let (series, settings): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.contains(": "));
        let mut case = Self {
            policy,
            series: series.into_iter().flat_map(series_of).collect(),
            fleet: Vec::new(),
            settings: Vec::new(),
            now: None,
            starts: Vec::new(),
        };
        let settings = settings.into_iter().chain([more]);
        let settings = settings.flat_map(|line| line.split("; "));
        for setting in settings.filter(|setting| !setting.trim().is_empty()) {
            let words: Vec<&str> = setting.split_whitespace().collect();
            match words[..] {
                ["at", secs] => case.now = Some(at(number(secs))),
                ["starting", ref times @ ..] => {
                    case.starts.extend(times.iter().map(|it| number(it) as i32));
                }
                ["pods", range, "each", each, ref since @ ..] => {
                    let since = since.last().map(|since| number(since));
                    case.fleet
                        .push((places(range), number(each) as usize, since));
                }
                _ if !set(&mut case.policy, &words) => case.settings.push(words),
                _ => {}
            }
        }
        case
    }

    /// The scene with all series.
    pub(super) fn scene(&self) -> Scene {
        let mut scene = Scene::new(self.policy.clone());
        for (signal, (labels, samples)) in &self.series {
            scene.feed(*signal, labels, samples);
        }
        for words in self.settings.iter().filter(|it| it[0] == "answered") {
            let nothing = Batch::new(signal(words[1]).unwrap());
            scene.pipeline.take(&nothing, at(0.0));
        }
        scene.inventory = self.cluster(0.0).into();
        scene
    }

    /// The cluster at a time.
    pub(super) fn cluster(&self, now: f64) -> Inventory {
        let mut inventory = self.fleet(now);
        for words in &self.settings {
            match words[0] {
                "pods" => inventory = connect(&words[1..]),
                "answered" => {}
                _ => change(&mut inventory, words),
            }
        }
        inventory
    }

    /// The pods that have started by a time, on their Nodes.
    fn fleet(&self, now: f64) -> Inventory {
        let fleet = self.fleet.iter();
        let fleet = fleet.filter(|(.., since)| since.is_none_or(|since| since <= now));
        let pods = fleet.flat_map(|(range, each, since)| {
            let all = range.clone();
            all.map(move |it| (format!("n/p{it}"), (format!("node-{}", it / each), *since)))
        });
        let pods: BTreeMap<_, _> = pods.collect();
        if pods.is_empty() {
            return Inventory::default();
        }
        let named = pods
            .iter()
            .map(|(name, (_, since))| (name.as_str(), *since));
        let mut inventory = cluster(&named.collect::<Vec<_>>());
        let nodes: BTreeSet<_> = pods.values().map(|(node, _)| node).collect();
        inventory.nodes = nodes.into_iter().map(|node| object(node)).collect();
        for (pod, (node, since)) in inventory.pods.iter_mut().zip(pods.values()) {
            pod.node = Some(node.as_str().into());
            pod.running_since = Some(at(since.unwrap_or(-3600.0)));
        }
        inventory
    }
}

/// The series of a line.
fn series_of(line: &str) -> Vec<(SignalId, Line)> {
    let (labels, values) = line.split_once(": ").unwrap();
    let first = values
        .strip_prefix('S')
        .and_then(|rest| rest.chars().next());
    let is_timed = first.is_some_and(|letter| letter.is_ascii_digit());
    let series = named(labels).map(|of| {
        let samples = match is_timed {
            true => timed(values, of.number as f64),
            false => listed(values, of.later),
        };
        (of.signal, (of.labels, samples))
    });
    series.collect()
}

/// A sample for each scrape: `90 · 40,41*5`, all this many seconds later.
fn listed(values: &str, later: f64) -> Vec<Sample> {
    let repeated = values.split_whitespace().map(|word| {
        let (value, times) = word.split_once('*').unwrap_or((word, "1"));
        format!("{} ", value.replace(',', " ")).repeat(times.parse().unwrap())
    });
    let mut samples = samples(&repeated.collect::<String>());
    for sample in &mut samples {
        sample.at = sample.at + Duration::from_secs_f64(later);
    }
    samples
}

/// The samples of a series by its number, from 25 minutes before zero on.
fn timed(content: &str, place: f64) -> Vec<Sample> {
    let (mut scrapes, mut phase, mut late, mut each) = (Vec::new(), 0.0, 0.0, 1);
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
            let is_second = value.ends_with('~') && !count.is_multiple_of(2);
            let value = number(value.trim_end_matches('~')) + f64::from(u8::from(is_second));
            all.push(sample(time - late, value));
        }
        let scrape = scrapes.iter().rfind(|(from, _)| *from <= time);
        time += scrape.unwrap().1;
    }
    all
}

/// Whether this is a setting of the policy, which it changes.
fn set(policy: &mut Policy, words: &[&str]) -> bool {
    match words[..] {
        ["window", secs] => policy.window = Some(Duration::from_secs(number(secs) as u64)),
        ["ratios"] => policy.percent_as_ratio = Some(true),
        ["any", ref of @ ..] => policy.active = conditions(of),
        ["scrape", secs] => policy.scrape_interval = Some(Duration::from_secs_f64(number(secs))),
        _ => return false,
    }
    true
}

/// `memory>0 gpu>5 engine>0.01`
fn conditions(words: &[&str]) -> Vec<Threshold> {
    let condition = |word: &&str| {
        let (value, above) = word.split_once('>').unwrap();
        let value = match value {
            "memory" => DeviceValue::MemoryUtilization,
            "gpu" => DeviceValue::GpuUtilization,
            _ => DeviceValue::Signal(signal(value).unwrap()),
        };
        Threshold {
            value,
            above: number(above),
        }
    };
    words.iter().map(condition).collect()
}

/// A cluster with the pods `p q`, or `p@30` with its start, or `0..3 p#` with three.
fn connect(words: &[&str]) -> Inventory {
    let of = |word: &str| {
        let (name, start) = word.split_once('@').unwrap_or((word, ""));
        (named_pod(name).join("/"), start.parse().ok())
    };
    let pods: Vec<(String, Option<f64>)> = match words {
        [range, name] if range.contains("..") => places(range)
            .map(|place| of(&name.replace('#', &place.to_string())))
            .collect(),
        _ => words.iter().map(|word| of(word)).collect(),
    };
    let pods = pods.iter().map(|(name, start)| (name.as_str(), *start));
    cluster(&pods.collect::<Vec<_>>())
}

/// The namespace of a pod, and its name.
pub(super) fn named_pod(word: &str) -> [&str; 2] {
    let (namespace, name) = word.split_once('/').unwrap_or(("n", word));
    [namespace, name]
}

fn change(inventory: &mut Inventory, words: &[&str]) {
    let [_, name] = named_pod(words[1]);
    let place = inventory.pods.iter().position(|pod| *pod.name == *name);
    let pod = place.map(|place| &mut inventory.pods[place]);
    match (words, pod) {
        (["nodes", "none"], _) => inventory.nodes.clear(),
        (["nodes", name], _) => inventory.nodes.push(object(name)),
        (["address", address, node], _) => {
            let told = ((*address).into(), (*node).into());
            inventory.node_addresses.push(told);
        }
        (["exporters", node], _) => inventory.exporter_nodes = vec![(*node).into()],
        (["namespaces", "none"], _) => inventory.namespaces.clear(),
        (["created", secs], _) => {
            let since = Some(at(number(secs)));
            inventory.workloads[0].created = since;
            inventory.namespaces[0].created = since;
        }
        (["label", name, value], _) => {
            inventory.nodes[0].labels = Labels::from_pairs([(*name, *value)]);
        }
        (["running", secs, names @ ..], _) => {
            let pods = inventory.pods.iter_mut();
            let pods = pods.filter(|pod| names.is_empty() || names.contains(&&*pod.name));
            pods.for_each(|pod| pod.running_since = Some(at(number(secs))));
        }
        (["listed", secs], _) => inventory.listed = Some(at(number(secs))),
        (["node", _, node], Some(pod)) => pod.node = Some((*node).into()),
        (["uncounted", _], Some(pod)) => (pod.gpus, pod.uncounted) = (0, true),
        (["gpus", _, count], Some(pod)) => pod.gpus = number(count) as u32,
        (["ended", _, secs], Some(pod)) => {
            (pod.phase, pod.ended) = (PodPhase::Finished, Some(at(number(secs))));
        }
        // A pod of the same name was on this node before.
        (["was", _, node, secs, end @ ..], Some(pod)) => {
            let mut before = pod.clone();
            (before.node, before.started) = (Some((*node).into()), Some(at(number(secs))));
            before.ended = end.first().map(|end| at(number(end)));
            inventory.departed.push(before);
        }
        (["departed" | "unknown", _], Some(_)) => {
            let gone = inventory.pods.remove(place.unwrap());
            inventory
                .departed
                .extend((words[0] == "departed").then_some(gone));
        }
        _ => panic!("{words:?}"),
    }
}

/// A series by its labels.
struct Named {
    number: usize,
    signal: SignalId,
    labels: String,
    /// How long after the others it is scraped, seconds.
    later: f64,
}

/// The series of a line: `watts 0..3 G# p# +5 job=dcgm`.
fn named(words: &str) -> impl Iterator<Item = Named> {
    let (mut of, mut range, mut later) = (SignalId::MEM_COPY_UTIL, 0..1, 0.0);
    let mut text = String::new();
    for word in words.split_whitespace() {
        if let Some(signal) = signal(word) {
            of = signal;
        } else if word.contains("..") {
            range = places(word);
        } else if let Some(secs) = word.strip_prefix('+') {
            later = number(secs);
        } else if word.contains('=') {
            text += &format!("{word} ");
        } else if text.is_empty() {
            text += &format!("UUID={word} ");
        } else {
            let [namespace, name] = named_pod(word);
            text += &format!("namespace={namespace} pod={name} ");
        }
    }
    range.map(move |number| Named {
        number,
        signal: of,
        labels: text.replace('#', &number.to_string()),
        later,
    })
}

fn signal(word: &str) -> Option<SignalId> {
    Some(match word {
        "gpu" => SignalId::GPU_UTIL,
        "dram" => SignalId::DRAM_ACTIVE,
        "engine" => SignalId::GR_ENGINE_ACTIVE,
        "used" => SignalId::FB_USED,
        "free" => SignalId::FB_FREE,
        "reserved" => SignalId::FB_RESERVED,
        "watts" => SignalId::POWER_USAGE,
        _ => return None,
    })
}

pub(super) fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn places(text: &str) -> Range<usize> {
    let (start, end) = text.split_once("..").unwrap();
    start.parse().unwrap()..end.parse().unwrap()
}
