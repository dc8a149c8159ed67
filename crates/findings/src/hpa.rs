//! Findings from an HPA alone: names, selectors, targets, limits.
//!
//! The controller's decisions: `k8s.io/kubernetes`
//! `pkg/controller/podautoscaler/{horizontal,replica_calculator}.go`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::asked::{is_of_active_only, is_of_cluster, is_percentage, measure, metrics_of, setting};
use super::codes::{GM501, GM502, GM503, GM504, GM505, GM506, GM509, GM512, GM514, GM515};
use super::names::nearest;
use super::{Finding, Severity};
use ::hpa::hpa::{Metric, MetricSource, MetricTarget};
use ::hpa::ratio::Milli;
use ::hpa::trace::SCALED_TO_ZERO;
use ::hpa::{ControllerFlags, Hpa, NEWEST};
use apimachinery::duration::{format_duration, parse_duration};
use apimachinery::quantity::milli_text;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::policy::{Formula, Policy};

/// The largest mean of percentages, in thousandths.
const MOST: i64 = 100_000;

/// The default stabilization window for scaling down, in seconds.
const STABILIZATION: u64 = 300;

/// Keys of a selector that are settings, and the edit distance up to which another key
/// counts as a misspelling of one. The label `node` is at distance 2 from `model`.
const RESERVED: [(&str, usize); 4] = [
    ("window", 2),
    ("formula", 2),
    ("model", 1),
    ("container", 2),
];

/// Kubernetes' own kinds that scale, and their single API version.
const SCALED: [(&str, &str); 4] = [
    ("Deployment", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("ReplicaSet", "apps/v1"),
    ("ReplicationController", "v1"),
];

/// The server's messages about missing values, with remedies.
const ANSWERS: [(&str, &str); 2] = [
    (
        "the pods request no ",
        "add the GPUs to the limits of the pods' containers, or add the resource that they request to gpu.resources",
    ),
    (
        "of the model that the metric selector names",
        "use one of these models in the metric selector",
    ),
];

/// Names of the metrics served now. `None` stands for an API that another server has:
/// GM101 explains the faults of its metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedMetrics {
    /// In the custom metrics API, for any kind of object.
    pub custom: Option<BTreeSet<String>>,
    /// In the external metrics API.
    pub external: Option<BTreeSet<String>>,
}

impl ServedMetrics {
    /// The names in the API of a metric, and those in the other API.
    fn sides(&self, source: &MetricSource) -> [Option<&BTreeSet<String>>; 2] {
        let [custom, external] = [self.custom.as_ref(), self.external.as_ref()];
        match source {
            MetricSource::External { .. } => [external, custom],
            _ => [custom, external],
        }
    }
}

/// Whether an HPA requests metrics other than CPU and memory.
#[must_use]
pub fn is_ours(hpa: &Hpa) -> bool {
    !metrics_of(hpa).is_empty()
}

/// All findings from the HPA alone. Without the served names, only misspelt names of
/// built-in metrics are found. `minor` is the minor version of the cluster's Kubernetes;
/// without it the newest is assumed.
#[must_use]
pub fn check(hpa: &Hpa, served: Option<&ServedMetrics>, minor: Option<u32>) -> Vec<Finding> {
    // Clients cannot read the controller's flags: the defaults are assumed.
    let flags = &ControllerFlags::of_version(minor.unwrap_or(NEWEST));
    let object = hpa.to_string();
    let asked = metrics_of(hpa);
    let mut found = Vec::new();
    for metric in &asked {
        found.extend(not_served(&object, metric, served));
        found.extend(misspelt_key(&object, metric));
        found.extend(value_of_active(&object, metric));
        found.extend(target(&object, metric, flags.tolerances(hpa).up));
        found.extend(window(&object, metric, hpa));
    }
    found.extend(never_scales_up_from_zero(&object, hpa, &asked, flags));
    found.extend(several(&object, hpa));
    found.extend(scale_target(&object, hpa));
    // A missing value that another finding explains is not reported.
    let is_of_other =
        |metric: &&Metric| served.is_some_and(|it| it.sides(&metric.source)[0].is_none());
    if found.iter().all(|it| it.severity < Severity::Error) && !asked.iter().any(is_of_other) {
        found.extend(without_value(&object, hpa));
    }
    found
}

/// The names that are served without configuration.
fn built_in() -> ServedMetrics {
    let metrics = metrics::built_in();
    let custom = metrics.iter().map(|it| it.name.clone()).collect();
    let external = ExternalMetrics::new(metrics.into());
    ServedMetrics {
        external: Some(external.names().iter().map(ToString::to_string).collect()),
        custom: Some(custom),
    }
}

fn not_served(object: &str, metric: &Metric, served: Option<&ServedMetrics>) -> Option<Finding> {
    let name = metric.source.name();
    let offline = built_in();
    let [here, there] = served.unwrap_or(&offline).sides(&metric.source);
    let here = here.filter(|here| !here.contains(name))?;
    let is_there = there.is_some_and(|there| there.contains(name));
    let (other, types) = match metric.source {
        MetricSource::External { .. } => ("custom", "Pods or Object"),
        _ => ("external", "External"),
    };
    let near = nearest(name, here.iter().map(String::as_str), name.len() / 4);
    let (message, remedy) = match (near, is_there) {
        (_, true) => (
            format!("{name} is served by the {other} metrics API only"),
            format!("request it from that API: use type {types}"),
        ),
        (Some(near), _) => (format!("no metric {name} is served"), format!("is {near} meant?")),
        // A rule may provide it, which an HPA's file does not show.
        (None, _) if served.is_none() => return None,
        (None, _) => (
            format!("no metric {name} is served"),
            "use a name from this list: kubectl get --raw /apis/custom.metrics.k8s.io/v1beta2 (external metrics: /apis/external.metrics.k8s.io/v1beta1)".to_owned(),
        ),
    };
    Some(Finding::new(&GM501, object, message, remedy))
}

fn misspelt_key(object: &str, metric: &Metric) -> Vec<Finding> {
    if measure(metric).is_none() {
        return Vec::new();
    }
    let (name, selector) = (metric.source.name(), metric.source.selector());
    let labels = selector.and_then(|it| it.match_labels.as_ref());
    let expressions = selector.and_then(|it| it.match_expressions.as_ref());
    let keys = labels.into_iter().flat_map(|it| it.keys());
    let keys = keys.chain(expressions.into_iter().flatten().map(|it| &it.key));
    let misspelt = keys.filter_map(|key| {
        let meant = RESERVED.iter().find(|(known, most)| nearest(key, [*known], *most).is_some());
        let (meant, _) = meant.filter(|(known, _)| known != key)?;
        let message = format!("{name}: the selector key {key} is treated as a label of the series, so {meant} is not set");
        Some(Finding::new(&GM502, object, message, format!("write {meant}")))
    });
    let mut found: Vec<Finding> = misspelt.collect();
    let bad = setting(metric, "window").and_then(|text| parse_duration(text).err());
    if let Some(error) = bad {
        let message = format!("{name}: the key window: {error}");
        let remedy = "write a duration: window: 2m";
        found.push(Finding::new(&GM502, object, message, remedy));
    }
    let formula = setting(metric, "formula").filter(|name| Formula::from_name(name).is_none());
    if let Some(formula) = formula {
        let message = format!("{name}: there is no formula {formula}");
        let remedy = format!(
            "write one of {}",
            Formula::ALL.map(Formula::name).join(", ")
        );
        found.push(Finding::new(&GM502, object, message, remedy));
    }
    found
}

fn value_of_active(object: &str, metric: &Metric) -> Option<Finding> {
    let is_value = matches!(metric.target, MetricTarget::Value(_));
    // With this formula idle GPUs count, and more replicas lower the mean.
    let is_plain = setting(metric, "formula") == Some(Formula::Plain.name());
    (is_value && is_of_active_only(metric) && !is_plain).then(|| {
        let message = format!(
            "{} is a mean over the active GPUs: more replicas do not lower it, and with type Value each sync multiplies the replicas again, up to maxReplicas",
            metric.source.name()
        );
        let remedy = "use a Pods metric with AverageValue, or the metric that ends in _sum with AverageValue";
        Finding::new(&GM503, object, message, remedy)
    })
}

fn target(object: &str, metric: &Metric, tolerance: f64) -> Option<Finding> {
    let (MetricTarget::Value(Milli(target)) | MetricTarget::AverageValue(Milli(target))) =
        metric.target
    else {
        return None;
    };
    if !is_percentage(metric) {
        return None;
    }
    let (name, text) = (metric.source.name(), milli_text(target));
    if target <= 1000 {
        let message = format!("{name} is a percentage from 0 to 100, and the target is {text}");
        let percent = milli_text(target.saturating_mul(100));
        let remedy = format!("write {percent:?} if {percent} percent is meant");
        return Some(Finding::new(&GM505, object, message, remedy));
    }
    // The controller keeps the replicas while value ÷ target is at most 1 + tolerance.
    let thousandths = (tolerance * 1000.0).round() as i64;
    let threshold = i128::from(target) * i128::from(1000 + thousandths);
    (threshold >= i128::from(MOST) * 1000).then(|| {
        let message = format!(
            "{name} is at most 100: with a target of {text} the ratio is at most {:.2}, which is within the tolerance of {tolerance}: the HPA never scales up",
            MOST as f64 / target as f64,
        );
        Finding::new(&GM504, object, message, "write a target of 80 or less")
    })
}

fn window(object: &str, metric: &Metric, hpa: &Hpa) -> Option<Finding> {
    measure(metric)?;
    let window = parse_duration(setting(metric, "window")?).ok()?;
    let seconds = hpa.behavior.as_ref().and_then(|it| it.down.window);
    let seconds = seconds.and_then(|it| u64::try_from(it).ok());
    let stabilization = seconds.unwrap_or(STABILIZATION);
    (window.as_secs() > stabilization).then(|| {
        let text = format_duration(window);
        let message = format!(
            "{}: the window of {text} is longer than the scale-down stabilisation of {stabilization}s: after a scale-down the value still includes the old load, and the HPA removes too many replicas",
            metric.source.name()
        );
        let remedy = format!("set behavior.scaleDown.stabilizationWindowSeconds to {} or more", window.as_secs());
        Finding::new(&GM506, object, message, remedy)
    })
}

/// Findings about windows that the server rejects. Without `longest` its default is assumed.
#[must_use]
pub fn too_long(hpa: &Hpa, longest: Option<Duration>) -> Vec<Finding> {
    let (unless, severity) = match longest {
        Some(_) => ("", Severity::Error),
        None => (" unless it is set", Severity::Warning),
    };
    let longest = longest.unwrap_or_else(|| Policy::default().max_window);
    let found = metrics_of(hpa).into_iter().filter_map(|metric| {
        measure(metric)?;
        let window = parse_duration(setting(metric, "window")?).ok()?;
        let [text, most] = [window, longest].map(format_duration);
        let message = format!(
            "{}: the window of {text} is longer than gpu.maxWindow, {most}{unless}: the metric has no value",
            metric.source.name()
        );
        let remedy = format!("write window: {most} or less, or set gpu.maxWindow to {text}");
        let finding = Finding::new(&GM502, hpa.to_string(), message, remedy);
        (window > longest).then_some(finding.with_severity(severity))
    });
    found.collect()
}

fn never_scales_up_from_zero(
    object: &str,
    hpa: &Hpa,
    asked: &[&Metric],
    flags: &ControllerFlags,
) -> Option<Finding> {
    if hpa.min != 0 {
        return None;
    }
    // Without pods these have no value.
    let sleeps = |metric: &&Metric| {
        let of_gpus = measure(metric).is_some() && !is_of_cluster(metric);
        matches!(metric.source, MetricSource::Pods { .. }) || of_gpus
    };
    if asked.len() == hpa.metrics.len() && asked.iter().all(sleeps) {
        let message = "minReplicas is 0 and all metrics depend on GPUs that pods hold: without pods there is no value, and the HPA cannot scale up";
        let gate = match flags.scales_to_zero() {
            true => String::new(),
            false => format!(
                "; Kubernetes 1.{} accepts 0 only with the feature gate HPAScaleToZero",
                flags.minor
            ),
        };
        let remedy = format!(
            "add a metric that has a value without pods, such as the length of a queue (External), or set minReplicas to 1{gate}"
        );
        return Some(Finding::new(&GM509, object, message, remedy));
    }
    let is_off = hpa.status.message("ScalingDisabled").is_some();
    (is_off && flags.records_zero() && !hpa.status.is_true(SCALED_TO_ZERO)).then(|| {
        let message = "the target has no replicas, and the controller did not scale it to zero (condition ScaledToZero): the controller never adds a replica";
        let remedy = "no action is needed if this is intended; otherwise set the replicas of the workload to 1: the controller scales up only what it has scaled to zero itself";
        Finding::new(&GM509, object, message, remedy).with_severity(Severity::Warning)
    })
}

fn several(object: &str, hpa: &Hpa) -> Option<Finding> {
    let count = hpa.metrics.len();
    (count > 1).then(|| {
        let message = format!("{count} metrics: the HPA uses the highest number of replicas, and a metric that fails prevents a scale-down");
        Finding::new(&GM512, object, message, "no action is needed if this is intended")
    })
}

fn without_value(object: &str, hpa: &Hpa) -> Option<Finding> {
    let reasons = [
        "FailedGetPodsMetric",
        "FailedGetObjectMetric",
        "FailedGetExternalMetric",
    ];
    let mut told = reasons.iter().filter_map(|it| hpa.status.message(it));
    let told = told.next()?;
    let known = ANSWERS.iter().find(|(words, _)| told.contains(words));
    let remedy = match known {
        Some((_, remedy)) => (*remedy).to_owned(),
        None => format!(
            "run kubectl gpu-metrics explain hpa {}/{}",
            hpa.namespace, hpa.name
        ),
    };
    Some(Finding::new(&GM515, object, told, remedy))
}

fn scale_target(object: &str, hpa: &Hpa) -> Option<Finding> {
    let target = &hpa.scaled;
    let name = format!("{} {}", target.kind, target.name);
    let version = target.api_version.as_deref().unwrap_or_default();
    let known = SCALED.iter().find(|(kind, _)| *kind == target.kind);
    if let Some((_, right)) = known.filter(|(_, right)| *right != version) {
        let message = format!("scaleTargetRef {name}: this kind is not in apiVersion {version:?}");
        let remedy = format!("write apiVersion: {right}");
        return Some(Finding::new(&GM514, object, message, remedy));
    }
    let told = hpa.status.message("FailedGetScale")?;
    let remedy = format!(
        "check apiVersion, kind and name of scaleTargetRef ({version} {name}), and that the kind has a scale subresource"
    );
    Some(Finding::new(&GM514, object, told, remedy))
}
