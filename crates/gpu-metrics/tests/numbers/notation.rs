//! Reads cases from text, in the notation of `cases/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use super::scene::{at, cluster, object};
use super::series::{Condition, Series, add, series_of};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Inventory, ObjectKind, Pod, PodPhase, Workload};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

/// How long a replica remembers pods that ended, seconds.
const REMEMBERED: f64 = 360.0;

/// The cases of a table: the fact, and its lines, each after a blank.
pub(super) fn cases(table: &str) -> impl Iterator<Item = (&str, Vec<String>)> {
    table.split("\n# ").skip(1).map(|case| {
        let (fact, lines) = case.split_once('\n').unwrap();
        let lines = lines.lines().filter(|line| !line.starts_with("//"));
        (fact, lines.map(|line| format!(" {line}")).collect())
    })
}

/// Passes each line of expectations of a case to `look`, which returns those that are not met.
pub(super) fn check(
    (fact, lines): (&str, &[String]),
    policy: &Policy,
    mut look: impl FnMut(&Case<'_>, &[&str]) -> Vec<String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in lines {
        if let Some((more, expected)) = line.split_once(" = ") {
            let expected: Vec<&str> = expected.split("; ").collect();
            let case = Case::read(policy.clone(), lines, more);
            let unmet = look(&case, &expected).into_iter();
            wrong.extend(unmet.map(|unmet| format!("{fact}:{more} {unmet}")));
        }
    }
    wrong
}

/// A pod of a fleet.
#[derive(Debug)]
pub(super) struct FleetPod {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) lives: Range<f64>,
    pub(super) gpus: u32,
    /// Whether its Node ends with it.
    removed: bool,
}

/// What the lines of a case describe.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) policy: Policy,
    pub(super) series: Vec<Series>,
    pub(super) store: Vec<Condition<'a>>,
    pub(super) fleet: Vec<FleetPod>,
    settings: Vec<Vec<&'a str>>,
    /// The time of the question, if it is given.
    pub(super) now: Option<Timestamp>,
    /// When further replicas start.
    pub(super) starts: Vec<f64>,
}

impl<'a> Case<'a> {
    pub(super) fn read(policy: Policy, lines: &'a [String], more: &'a str) -> Self {
        let lines = lines.iter().map(String::as_str);
        let lines = lines.filter(|line| !line.contains(" = "));
        let (series, settings): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.contains(": "));
        let mut case = Self {
            policy,
            series: Vec::new(),
            store: Vec::new(),
            fleet: Vec::new(),
            settings: Vec::new(),
            now: None,
            starts: Vec::new(),
        };
        let settings = settings.into_iter().chain([more]);
        let settings = settings.flat_map(|line| line.split("; "));
        for setting in settings.filter(|setting| !setting.trim().is_empty()) {
            case.set(setting.split_whitespace().collect());
        }
        for series in series.iter().flat_map(|line| series_of(line, &case.store)) {
            add(&mut case.series, series);
        }
        case
    }

    fn set(&mut self, words: Vec<&'a str>) {
        match words[..] {
            ["at", secs] => self.now = Some(at(number(secs))),
            ["starting", ref times @ ..] => {
                self.starts.extend(times.iter().map(|it| number(it)));
            }
            ["pods", range, "each" | "on", place, ref more @ ..] => {
                let number_of = |word| {
                    let place = more.iter().position(|it| *it == word);
                    place.map(|place| number(more[place + 1]))
                };
                let (number, is_row) = (number(place) as usize, words[2] == "each");
                self.fleet.extend(places(range).map(|pod| FleetPod {
                    name: format!("p{pod}"),
                    node: format!("node-{}", if is_row { pod / number } else { number }),
                    lives: number_of("since").unwrap_or(-3600.0)..number_of("until").unwrap_or(1e9),
                    gpus: number_of("gpus").map_or(1, |count| count as u32),
                    removed: more.contains(&"removed"),
                }));
            }
            _ if set(&mut self.policy, &words) => {}
            _ => match Condition::read(&words) {
                Some(condition) => self.store.push(condition),
                None => self.settings.push(words),
            },
        }
    }

    /// The signals that are asked for.
    pub(super) fn signals(&self) -> BTreeSet<SignalId> {
        self.series.iter().map(|series| series.signal).collect()
    }

    /// The cluster at a time, as a replica knows it that started at another.
    pub(super) fn cluster(&self, now: f64, start: f64) -> Inventory {
        let mut inventory = match self.fleet.is_empty() {
            true => Inventory::default(),
            false => self.of_fleet(now, start),
        };
        for words in &self.settings {
            match words[0] {
                "pods" => inventory = connect(&words[1..]),
                _ => change(&mut inventory, words),
            }
        }
        inventory
    }

    fn of_fleet(&self, now: f64, start: f64) -> Inventory {
        let begun = self.fleet.iter().filter(|it| it.lives.start <= now);
        let pods: BTreeMap<String, &FleetPod> = begun
            .clone()
            .map(|it| (format!("n/{}", it.name), it))
            .collect();
        let names = pods.keys().map(|name| (name.as_str(), None));
        let mut inventory = cluster(&names.collect::<Vec<_>>());
        for (pod, of) in inventory.pods.iter_mut().zip(pods.values()) {
            let since = Some(at(of.lives.start));
            (pod.started, pod.running_since) = (since, since);
            pod.node = Some(of.node.as_str().into());
            pod.gpus = of.gpus;
            pod.ended = (of.lives.end <= now).then(|| at(of.lives.end));
        }
        let (live, mut departed): (Vec<Pod>, Vec<Pod>) = inventory
            .pods
            .into_iter()
            .partition(|pod| pod.ended.is_none());
        let remembered = at(start.max(now - REMEMBERED));
        departed.retain(|pod| pod.ended > Some(remembered));
        let standing = begun.filter(|it| !it.removed || now < it.lives.end);
        let nodes: BTreeSet<&str> = standing.map(|it| it.node.as_str()).collect();
        Inventory {
            pods: live,
            departed,
            nodes: nodes.into_iter().map(object).collect(),
            listed: Some(at(start)),
            ..inventory
        }
    }
}

/// Whether this is a setting of the policy, which it changes.
fn set(policy: &mut Policy, words: &[&str]) -> bool {
    match words[..] {
        ["window", secs] => policy.window = Some(Duration::from_secs(number(secs) as u64)),
        ["step", secs] => policy.step = Duration::from_secs(number(secs) as u64),
        ["ratios"] => policy.percent_as_ratio = Some(true),
        _ => return false,
    }
    true
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
        (["workload", resource, name], _) => inventory.workloads.push(Workload {
            kind: ObjectKind::new(resource, "", "", true),
            name: (*name).into(),
            ..inventory.workloads[0].clone()
        }),
        (["namespaces", "none"], _) => inventory.namespaces.clear(),
        (["created", secs], _) => {
            let since = Some(at(number(secs)));
            inventory.workloads[0].created = since;
            inventory.namespaces[0].created = since;
        }
        (["label", name, value], _) => {
            let node = inventory.nodes.last_mut().unwrap();
            node.labels = Labels::from_pairs([(*name, *value)]);
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

pub(super) fn signal(word: &str) -> Option<SignalId> {
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

pub(super) fn places(text: &str) -> Range<usize> {
    let (start, end) = text.split_once("..").unwrap();
    start.parse().unwrap()..end.parse().unwrap()
}
