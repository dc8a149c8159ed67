//! Inputs and results of the controller's own tests, and properties that hold for all numbers.

mod health;
mod policies;
mod properties;
mod recorded;
mod replicas;
mod specification;
mod syncs;
mod zero;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier};

use super::behavior::{Behavior, ScalingPolicy};
use super::hpa::{HpaStatus, Metric, MetricSource, MetricTarget};
use super::pods::PodCounts;
use super::ratio::Milli;
use super::stabilise::PastReplicas;
use super::{
    ControllerFlags, History, Hpa, MetricsAnswer, Proposal, ScaledPod, Situation, TargetScale,
    Trace,
};
use apimachinery::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn ago(seconds: u64) -> Timestamp {
    NOW - Duration::from_secs(seconds)
}

/// `10@120 9@60`: replicas, and how many seconds ago.
fn past(text: &str) -> Vec<PastReplicas> {
    let read = |word: &str| {
        let (replicas, age) = word.split_once('@').unwrap();
        PastReplicas {
            replicas: replicas.parse().unwrap(),
            at: ago(age.parse().unwrap()),
        }
    };
    text.split_whitespace().map(read).collect()
}

/// `4/15 100%/60`: policies with their periods.
fn policies(text: &str) -> Vec<ScalingPolicy> {
    let read = |word: &str| {
        let (value, period) = word.split_once('/').unwrap();
        ScalingPolicy {
            percent: value.ends_with('%'),
            value: value.trim_end_matches('%').parse().unwrap(),
            period: period.parse().unwrap(),
        }
    };
    text.split_whitespace().map(read).collect()
}

/// The rows of a table; `#` is before a comment.
fn rows(table: &str) -> impl Iterator<Item = &str> {
    let rows = table.lines();
    rows.filter(|row| !row.is_empty() && !row.starts_with('#'))
}

/// The cells of a row, with `|` between them.
fn cells<const N: usize>(row: &str) -> [&str; N] {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    cells.try_into().unwrap()
}

/// The inputs of one sync, of which a test changes some.
struct Case {
    hpa: Hpa,
    scale: TargetScale,
    pods: Vec<ScaledPod>,
    answers: Vec<MetricsAnswer>,
    flags: ControllerFlags,
    history: History,
}

impl Case {
    /// `measure` and `pods` have the form of the cells in the tables.
    fn new(current: i32, (min, max): (i32, i32), measure: &str, pods: &str) -> Self {
        let (metric, given) = read_measure(measure);
        let (pods, samples) = read_pods(pods);
        Self {
            hpa: Hpa {
                namespace: "team".to_owned(),
                name: "web".to_owned(),
                scaled: CrossVersionObjectReference::default(),
                min,
                max,
                metrics: vec![metric],
                behavior: None,
                status: HpaStatus::default(),
            },
            scale: TargetScale {
                spec_replicas: current,
                status_replicas: current,
            },
            pods,
            answers: vec![given.map_or(MetricsAnswer::Pods(samples), MetricsAnswer::Values)],
            flags: ControllerFlags::of_version(35),
            // An old entry, outside of every window.
            history: History {
                recommendations: past("1@86400"),
                ..History::default()
            },
        }
    }

    /// Adds a metric over the same pods.
    fn and(mut self, measure: &str) -> Self {
        let (metric, given) = read_measure(measure);
        self.hpa.metrics.push(metric);
        self.answers
            .push(given.map_or(self.answers[0].clone(), MetricsAnswer::Values));
        self
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            hpa: &self.hpa,
            scale: self.scale,
            pods: &self.pods,
            answers: &self.answers,
            flags: &self.flags,
            history: &self.history,
            now: NOW,
        }
    }

    fn sync(&self) -> Trace {
        self.situation().sync()
    }
}

/// `pods 15000` (thousandths), `object =15000 of 20000`, `external /5000 of 20000+100`.
fn read_measure(text: &str) -> (Metric, Option<Vec<i64>>) {
    let (text, given) = text.split_once(" of ").unwrap_or((text, ""));
    let given = (!given.is_empty()).then(|| {
        let values = given.split('+').filter(|value| *value != "nothing");
        values.map(|value| value.parse().unwrap()).collect()
    });
    let (source, target) = text.split_once(' ').unwrap();
    let milli = |text: &str| Milli(text.parse().unwrap());
    let target = match target.split_at(1) {
        ("=", rest) => MetricTarget::Value(milli(rest)),
        ("/", rest) => MetricTarget::AverageValue(milli(rest)),
        _ => MetricTarget::AverageValue(milli(target)),
    };
    let metric = MetricIdentifier {
        name: "qps".to_owned(),
        selector: None,
    };
    let source = match source {
        "pods" => MetricSource::Pods { metric },
        "external" => MetricSource::External { metric },
        _ => MetricSource::Object {
            metric,
            described: CrossVersionObjectReference::default(),
        },
    };
    (Metric { source, target }, given)
}

/// One word for each pod: its value or `-`, and letters: `u`nready, `P`ending, `F`ailed,
/// `S`ucceeded, `D`eleted. `x2000` is the value of a pod that is not selected.
fn read_pods(text: &str) -> (Vec<ScaledPod>, BTreeMap<String, i64>) {
    let (mut pods, mut samples) = (Vec::new(), BTreeMap::new());
    for (index, word) in text.split_whitespace().enumerate() {
        if let Some(value) = word.strip_prefix('x') {
            samples.insert(format!("stranger-{index}"), value.parse().unwrap());
            continue;
        }
        let value = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let letters = &word[value.len()..];
        let name = format!("pod-{index}");
        if value != "-" {
            samples.insert(name.clone(), value.parse().unwrap());
        }
        pods.push(ScaledPod {
            name,
            counts: match letters.chars().last() {
                Some('F' | 'D') => PodCounts::No,
                Some('P') => PodCounts::Pending,
                _ => PodCounts::Yes,
            },
            is_ready: matches!(letters, "" | "D"),
        });
    }
    (pods, samples)
}
