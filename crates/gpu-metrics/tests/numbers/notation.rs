//! Reads scenes from text.
//!
//! ```text
//! # a GPU handed over counts for the pod that its labels name
//! window 80; pods new
//! A old: 90 90
//! A: · · 0
//! A new: · · · 10 10 10
//! = new 10; old -; cluster 35
//! at 31; pods old = old 90
//! ```
//!
//! A line with a colon is a series: a signal (if none, the memory copy utilisation), a
//! device, its pod in the namespace `n`, further labels, and a value for each scrape; `40*5`
//! is a value five times, and `40,41*5` two in turn. `0..3 G# p#` stands for three series, with
//! numbers in place of `#`.
//!
//! A line with ` = ` has what is expected of the scene, which may have further settings before
//! it.

use std::ops::Range;
use std::time::Duration;

use super::scene::{Scene, at, object, policy, samples};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample};
use gpu_metrics::inventory::{Inventory, PodPhase};
use gpu_metrics::policy::{
    Activity, ActivityCondition, DeviceValue, Formula, MigWeight, Policy, Shared,
};
use gpu_metrics::signal::SignalId;

/// Passes each line of expectations of a table to `look`, which returns those that are not
/// met, with its scene and the time of the question.
pub(super) fn check(
    table: &str,
    mut look: impl FnMut((Scene, Option<Timestamp>), &[&str]) -> Vec<String>,
) {
    let mut wrong = Vec::new();
    for case in table.split("\n# ").skip(1) {
        let (fact, lines) = case.split_once('\n').unwrap();
        let lines = lines.lines().filter(|line| !line.starts_with("//"));
        let lines: Vec<String> = lines.map(|line| format!(" {line}")).collect();
        for line in &lines {
            if let Some((more, expected)) = line.split_once(" = ") {
                let expected: Vec<&str> = expected.split("; ").collect();
                let unmet = look(scene(&lines, more), &expected).into_iter();
                wrong.extend(unmet.map(|unmet| format!("{fact}:{more} {unmet}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The scene of a case, and the time of the question if it is given.
fn scene(lines: &[String], more: &str) -> (Scene, Option<Timestamp>) {
    let lines = lines.iter().filter(|line| !line.contains(" = "));
    let (series, settings): (Vec<&String>, Vec<&String>) =
        lines.partition(|line| line.contains(": "));
    let settings = settings.into_iter().map(String::as_str).chain([more]);
    let settings = settings.flat_map(|line| line.split("; "));
    let (mut policy, mut changes, mut now) = (policy(50), Vec::new(), None);
    for setting in settings.filter(|setting| !setting.trim().is_empty()) {
        let words: Vec<&str> = setting.split_whitespace().collect();
        match words[0] {
            "at" => now = Some(at(number(words[1]))),
            _ if !set(&mut policy, &words) => changes.push(words),
            _ => {}
        }
    }
    let mut scene = Scene::new(policy);
    for line in series {
        let (labels, values) = line.split_once(": ").unwrap();
        feed(&mut scene, labels, values);
    }
    for words in changes {
        scene = match words[0] {
            "pods" => connect(scene, &words[1..]),
            "answered" => {
                let nothing = Batch::new(signal(words[1]).unwrap());
                scene.pipeline.take(&nothing, at(0.0));
                scene
            }
            _ => scene.with(|inventory| change(inventory, &words)),
        };
    }
    (scene, now)
}

/// Whether this is a setting of the policy, which it changes.
fn set(policy: &mut Policy, words: &[&str]) -> bool {
    match words[..] {
        ["window", secs] => policy.window = Some(Duration::from_secs(number(secs) as u64)),
        ["formula", name] => policy.formula = Formula::from_name(name).unwrap(),
        ["mig", "slices"] => policy.mig_weight = MigWeight::Slices,
        ["mig", "equal"] => policy.mig_weight = MigWeight::Equal,
        ["shared", "split"] => policy.shared = Shared::Split,
        ["shared", "whole"] => policy.shared = Shared::DeviceValue,
        ["ratios"] => policy.percent_as_ratio = Some(true),
        ["hold", secs] => policy.hold = Duration::from_secs_f64(number(secs)),
        ["any", ref of @ ..] => policy.activity = Activity::Any(conditions(of)),
        ["scrape", secs] => policy.scrape_interval = Some(Duration::from_secs_f64(number(secs))),
        _ => return false,
    }
    true
}

/// `memory>0 gpu>5 engine>0.01`
fn conditions(words: &[&str]) -> Vec<ActivityCondition> {
    let condition = |word: &&str| {
        let (value, above) = word.split_once('>').unwrap();
        let value = match value {
            "memory" => DeviceValue::MemoryUtilization,
            "gpu" => DeviceValue::GpuUtilization,
            _ => DeviceValue::Signal(signal(value).unwrap()),
        };
        ActivityCondition::Above(value, number(above))
    };
    words.iter().map(condition).collect()
}

/// A cluster with the pods `p q`, or `p@30` with its start, or `0..3 p#` with three.
fn connect(scene: Scene, words: &[&str]) -> Scene {
    if let [range, name] = words
        && range.contains("..")
    {
        let names = places(range).map(|place| name.replace('#', &place.to_string()));
        return scene.pods(names.map(|name| named_pod(&name).join("/")));
    }
    let of = |word: &&str| {
        let (name, start) = word.split_once('@').unwrap_or((word, ""));
        (named_pod(name).join("/"), start.parse().ok())
    };
    let pods: Vec<(String, Option<f64>)> = words.iter().map(of).collect();
    let pods = pods.iter().map(|(name, start)| (name.as_str(), *start));
    scene.cluster(&pods.collect::<Vec<_>>())
}

/// The namespace of a pod, and its name.
pub(super) fn named_pod(word: &str) -> [&str; 2] {
    let (namespace, name) = word.split_once('/').unwrap_or(("n", word));
    [namespace, name]
}

pub(super) fn change(inventory: &mut Inventory, words: &[&str]) {
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

/// Adds the series of a line.
fn feed(scene: &mut Scene, labels: &str, values: &str) {
    let repeated = values.split_whitespace().map(|word| {
        let (value, times) = word.split_once('*').unwrap_or((word, "1"));
        format!("{} ", value.replace(',', " ")).repeat(times.parse().unwrap())
    });
    let samples = samples(&repeated.collect::<String>());
    for Named {
        signal,
        labels,
        later,
        ..
    } in named(labels)
    {
        let later = Duration::from_secs_f64(later);
        let samples = samples.iter().map(|sample| Sample {
            at: sample.at + later,
            ..*sample
        });
        scene.feed(signal, &labels, &samples.collect::<Vec<_>>());
    }
}

/// A series by its labels.
pub(super) struct Named {
    pub(super) number: usize,
    pub(super) signal: SignalId,
    pub(super) labels: String,
    /// How long after the others it is scraped, seconds.
    later: f64,
}

/// The series of a line: `watts 0..3 G# p# +5 job=dcgm`.
pub(super) fn named(words: &str) -> impl Iterator<Item = Named> {
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

pub(super) fn places(text: &str) -> Range<usize> {
    let (start, end) = text.split_once("..").unwrap();
    start.parse().unwrap()..end.parse().unwrap()
}
