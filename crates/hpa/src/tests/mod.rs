//! Inputs and results of the controller's own tests, and properties that hold for all numbers.

mod health;
mod policies;
mod properties;
mod replicas;
mod specification;
mod syncs;
mod zero;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;

use super::behavior::{Behavior, ScalingPolicy};
use super::hpa::{HpaStatus, Metric, MetricSource, MetricTarget};
use super::pods::{PodMetric, Readiness, ResourceRequests, ScaledPodPhase};
use super::ratio::Milli;
use super::stabilise::PastReplicas;
use super::{
    ControllerFlags, History, Hpa, MetricsAnswer, ScaledPod, Selection, Situation, TargetScale,
    Trace,
};
use apimachinery::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// The flags of the controller's own tests.
fn flags() -> ControllerFlags {
    ControllerFlags {
        cpu_initialization: Duration::from_secs(120),
        initial_readiness: Duration::from_secs(10),
        ..ControllerFlags::of_version(35)
    }
}

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

/// The cells of a row, with `|` between them.
fn cells<const N: usize>(row: &str) -> [&str; N] {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    cells.try_into().unwrap()
}

/// The inputs of one sync, of which a test changes some.
struct Case {
    hpa: Hpa,
    scale: Result<TargetScale, String>,
    selection: Selection,
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
            scale: Ok(TargetScale {
                spec_replicas: current,
                status_replicas: current,
            }),
            selection: Selection::Clear,
            pods,
            answers: vec![given.map_or(MetricsAnswer::Pods(samples), MetricsAnswer::Values)],
            flags: flags(),
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

    fn sync(&self) -> Trace {
        Situation {
            hpa: &self.hpa,
            scale: self.scale.as_ref().map_err(String::as_str),
            selection: &self.selection,
            pods: &self.pods,
            answers: &self.answers,
            flags: &self.flags,
            history: &self.history,
            now: NOW,
        }
        .sync()
    }
}

/// `cpu 30%`, `cpu@c 30%`, `cpu 300` (thousandths), `pods 15000`,
/// `object =15000 of 20000`, `external /5000 of 20000+100`.
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
        _ => match target.strip_suffix('%') {
            Some(percent) => MetricTarget::Utilization(percent.parse().unwrap()),
            None => MetricTarget::AverageValue(milli(target)),
        },
    };
    let metric = "qps".to_owned();
    let selector = None;
    let source = match source {
        "pods" => MetricSource::Pods { metric, selector },
        "external" => MetricSource::External { metric, selector },
        "object" => MetricSource::Object {
            metric,
            selector,
            version: None,
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
        },
        _ => MetricSource::Resource {
            resource: source.trim_end_matches("@c").to_owned(),
            container: source.ends_with("@c").then(|| "c".to_owned()),
        },
    };
    (Metric { source, target }, given)
}

/// One word for each pod: its value or `-`, `/` and its request when that is
/// not 1000 (`none` for nothing), and letters: `u`nready, `h`ot (started now),
/// `P`ending, `F`ailed, `S`ucceeded, `D`eleted. `x2000` is the value of a pod
/// that is not selected.
fn read_pods(text: &str) -> (Vec<ScaledPod>, BTreeMap<String, PodMetric>) {
    let (mut pods, mut samples) = (Vec::new(), BTreeMap::new());
    for (index, word) in text.split_whitespace().enumerate() {
        let sample = |text: &str| PodMetric {
            milli: text.parse().unwrap(),
            at: NOW,
            window: Duration::from_secs(60),
        };
        if let Some(value) = word.strip_prefix('x') {
            samples.insert(format!("stranger-{index}"), sample(value));
            continue;
        }
        let (word, no_request) = match word.strip_suffix("/none") {
            Some(word) => (word, true),
            None => (word, false),
        };
        let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let letters = &word[number.len()..];
        let (value, request) = number.split_once('/').unwrap_or((number, "1000"));
        let name = format!("pod-{index}");
        if value != "-" {
            samples.insert(name.clone(), sample(value));
        }
        let started = if letters.contains('h') { NOW } else { ago(180) };
        let request = request.parse().unwrap();
        let requests = |request| ResourceRequests::from([("cpu".to_owned(), request)]);
        let mut containers = vec![("c".to_owned(), requests(request))];
        if no_request {
            containers[0].1.clear();
        }
        let phases = [
            ('P', ScaledPodPhase::Pending),
            ('F', ScaledPodPhase::Failed),
            ('S', ScaledPodPhase::Succeeded),
        ];
        let phase = phases
            .into_iter()
            .find(|(letter, _)| letters.contains(*letter));
        pods.push(ScaledPod {
            name,
            phase: phase.map_or(ScaledPodPhase::Running, |(_, phase)| phase),
            deleted: letters.contains('D'),
            started: Some(started),
            ready: Some(Readiness {
                ready: Some(!letters.contains('u')),
                since: started,
            }),
            containers,
            whole: None,
        });
    }
    (pods, samples)
}

fn condition<'a>(trace: &'a Trace, type_: &str) -> (bool, &'a str) {
    let found = trace
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_);
    let found = found.unwrap_or_else(|| panic!("no condition {type_}"));
    (found.status, found.reason)
}
