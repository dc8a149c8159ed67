//! Findings from an HPA alone: names, selectors, targets, limits.
//!
//! The controller's decisions: `k8s.io/kubernetes`
//! `pkg/controller/podautoscaler/{horizontal,replica_calculator}.go`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::codes::{GM501, GM502, GM503, GM504, GM505, GM506, GM509, GM514, GM515, GM516, GM518};
use super::names::nearest;
use super::shape::{Shape, Trend, Unit, is_of_cluster, measure, metrics_of, setting, usual};
use super::{Finding, Severity};
use ::hpa::health::Health;
use ::hpa::hpa::{Metric, MetricSource, MetricTarget};
use ::hpa::ratio::Milli;
use ::hpa::{ControllerFlags, Hpa, NEWEST};
use apimachinery::duration::{format_duration, parse_duration};
use apimachinery::quantity::milli_text;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::policy::{Formula, Policy};

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

/// Kubernetes' own kinds that scale, and their API version. The controller compares only the
/// group.
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
        found.extend(target(&object, metric, flags.tolerances(hpa).up));
        found.extend(window(&object, metric, hpa));
    }
    found.extend(never_scales_up_from_zero(&object, hpa, &asked, flags));
    found.extend(scale_target(&object, hpa));
    let is_of_other =
        |metric: &&Metric| served.is_some_and(|it| it.sides(&metric.source)[0].is_none());
    let is_explained =
        found.iter().any(|it| it.severity == Severity::Error) || asked.iter().any(is_of_other);
    found.extend(health(&object, hpa, flags, is_explained));
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
        _ if usual(name).is_some() => return Some(foreign_name(object, metric, served.is_some())),
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

/// The usual name of others for a built-in metric, which no rule serves.
fn foreign_name(object: &str, metric: &Metric, is_certain: bool) -> Finding {
    let name = metric.source.name();
    let meant = usual(name).unwrap_or_default();
    let (unless, severity) = match is_certain {
        true => ("", Severity::Error),
        false => (" unless a rule serves it", Severity::Warning),
    };
    let message = format!(
        "no metric {name} is served{unless}: it is the name of a field or of another exporter"
    );
    let target = metric.target.number();
    let remedy = format!(
        "write {{type: Pods, pods: {{metric: {{name: {meant}}}, target: {{type: AverageValue, averageValue: \"{target}\"}}}}}}: {meant} is served without a rule"
    );
    Finding::new(&GM501, object, message, remedy).with_severity(severity)
}

/// A target whose unit, type or height does not fit the metric.
fn target(object: &str, metric: &Metric, tolerance: f64) -> Option<Finding> {
    let shape = Shape::of(metric)?;
    let target = match metric.target {
        MetricTarget::Value(Milli(target)) | MetricTarget::AverageValue(Milli(target)) => target,
        MetricTarget::Utilization(_) => return None,
    };
    let unit = unit(object, metric.source.name(), shape.unit, target);
    let type_ = || target_type(object, metric, shape, target);
    unit.or_else(type_)
        .or_else(|| beyond(object, metric.source.name(), shape, target, tolerance))
}

/// A number in another unit than the metric's.
fn unit(object: &str, name: &str, unit: Unit, target: i64) -> Option<Finding> {
    let text = milli_text(target);
    let percent = milli_text(target.saturating_mul(100));
    let (what, remedy) = match unit {
        Unit::Percent if target <= 1000 => (
            "a percentage from 0 to 100",
            format!("write {percent:?} if {percent} percent is meant"),
        ),
        Unit::Ratio if target > 1000 => {
            let ratio = milli_text(target / 100);
            (
                "a ratio from 0 to 1",
                format!("write {ratio:?} if {text} percent is meant"),
            )
        }
        Unit::Mebibytes if target < 256_000 => (
            "in MiB, and a process on a GPU takes some hundred",
            "write the MiB, or use gpu_memory_used_percent if percent is meant".to_owned(),
        ),
        Unit::Watts if target < 20_000 => (
            "in watts, and an idle GPU takes more",
            "write the watts of a busy replica, or use gpu_utilization".to_owned(),
        ),
        _ => return None,
    };
    let message = format!("{name} is {what}, and the target is {text}");
    Some(Finding::new(&GM505, object, message, remedy))
}

/// A type of target with which the controller multiplies the replicas at each sync, or
/// divides a mean by them.
fn target_type(object: &str, metric: &Metric, shape: Shape, target: i64) -> Option<Finding> {
    let name = metric.source.name();
    let of_pods = match shape.unit {
        Unit::Number => "AverageValue",
        _ => "a Pods metric with AverageValue, or the metric that ends in _sum with AverageValue",
    };
    let again = "with type Value each sync multiplies the replicas again, up to maxReplicas";
    let (message, remedy) = match (&metric.source, metric.target, shape.trend) {
        (MetricSource::Pods { .. }, ..) | (_, MetricTarget::Value(_), Trend::Falls) => return None,
        (_, MetricTarget::Value(_), Trend::StaysMean) => (
            format!(
                "{name} is a mean over the active GPUs: more replicas do not lower it, and {again}"
            ),
            format!("use {of_pods}"),
        ),
        (_, MetricTarget::Value(_), Trend::StaysTotal) => (
            format!("{name} is a sum: more replicas do not lower it, and {again}"),
            "use AverageValue, with the target of one replica".to_owned(),
        ),
        (_, _, Trend::StaysTotal) => return None,
        _ => {
            let most = shape.most()?;
            let most = (most + target - 1) / target;
            let message = format!(
                "{name} is a mean, which AverageValue divides by the replicas again: the HPA never wants more than {most} of them"
            );
            (message, format!("use {of_pods}"))
        }
    };
    Some(Finding::new(&GM503, object, message, remedy))
}

/// A target that the largest value does not exceed beyond the tolerance. The controller keeps
/// the replicas while value ÷ target is at most 1 + tolerance.
fn beyond(object: &str, name: &str, shape: Shape, target: i64, tolerance: f64) -> Option<Finding> {
    let most = shape.most()?;
    let thousandths = (tolerance * 1000.0).round() as i64;
    let threshold = i128::from(target) * i128::from(1000 + thousandths);
    (threshold >= i128::from(most) * 1000).then(|| {
        let message = format!(
            "{name} is at most {}: with a target of {} the ratio is at most {:.2}, which is within the tolerance of {tolerance}: the HPA never scales up",
            milli_text(most), milli_text(target), most as f64 / target as f64,
        );
        let remedy = format!("write a target of {} or less", milli_text(most / 5 * 4));
        Finding::new(&GM504, object, message, remedy)
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
    None
}

/// What the controller's conditions say. A missing value that another finding explains is not
/// reported.
fn health(object: &str, hpa: &Hpa, flags: &ControllerFlags, is_explained: bool) -> Option<Finding> {
    let health = Health::of(hpa);
    let finding = |code, remedy: &str| Some(Finding::new(code, object, health.to_string(), remedy));
    match &health {
        Health::NoScale(_) => {
            let target = &hpa.scaled;
            let version = target.api_version.as_deref().unwrap_or_default();
            let remedy = format!(
                "check apiVersion, kind and name of scaleTargetRef ({version} {}), and that the kind has a scale subresource",
                target.name
            );
            finding(&GM514, &remedy)
        }
        Health::NoMetric(told) if !is_explained => {
            let known = ANSWERS.iter().find(|(words, _)| told.contains(words));
            let remedy = known.map(|(_, remedy)| (*remedy).to_owned());
            finding(&GM515, &remedy.unwrap_or_else(|| explain(hpa)))
        }
        Health::MetricsMissing(_) if !is_explained => {
            Some(finding(&GM515, &explain(hpa))?.with_severity(Severity::Warning))
        }
        Health::AtMaximum { .. } => finding(
            &GM516,
            "raise maxReplicas or the target, if there are GPUs for more replicas",
        ),
        Health::SwitchedOff if hpa.min > 0 || flags.records_zero() => {
            // With a minimum above zero this is how scaling is switched off.
            let severity = if hpa.min > 0 {
                Severity::Info
            } else {
                Severity::Warning
            };
            let remedy = "no action is needed if this is intended; otherwise set the replicas of the workload to 1: the controller scales up only what it has scaled to zero itself";
            Some(finding(&GM509, remedy)?.with_severity(severity))
        }
        _ => None,
    }
}

fn explain(hpa: &Hpa) -> String {
    format!(
        "run kubectl gpu-metrics explain hpa {}/{}",
        hpa.namespace, hpa.name
    )
}

/// Whether a message about a missing value names what to correct.
pub(super) fn has_known_remedy(message: &str) -> bool {
    ANSWERS.iter().any(|(words, _)| message.contains(words))
}

/// The versions that Kubernetes removed, and the minor version without them.
const REMOVED: [(&str, u32); 2] = [("autoscaling/v2beta1", 25), ("autoscaling/v2beta2", 26)];

/// The finding about a manifest of an HPA that kube-apiserver refuses. `minor` is its version,
/// if it is known; `error` is what does not fit the schema.
#[must_use]
pub fn refused(
    object: &str,
    version: Option<&str>,
    minor: Option<u32>,
    error: Option<&str>,
) -> Option<Finding> {
    let version = version.unwrap_or_default();
    let removed = REMOVED.iter().find(|(old, _)| *old == version);
    let is_gone = removed.filter(|(_, since)| minor.is_none_or(|minor| minor >= *since));
    let (message, remedy) = match (is_gone, error) {
        (Some((_, since)), _) => (
            format!("{version} is not served since Kubernetes 1.{since}"),
            "write apiVersion: autoscaling/v2, and its fields",
        ),
        (None, Some(error)) => (error.to_owned(), "correct what the message names"),
        (None, None) if removed.is_some() || version == "autoscaling/v2" => return None,
        (None, None) => (
            format!("apiVersion {version:?} has no HorizontalPodAutoscaler"),
            "write apiVersion: autoscaling/v2",
        ),
    };
    Some(Finding::new(&GM518, object, message, remedy))
}

/// A kind of Kubernetes in a group that does not have it.
fn scale_target(object: &str, hpa: &Hpa) -> Option<Finding> {
    let target = &hpa.scaled;
    let group = |version: &str| {
        version
            .split_once('/')
            .map_or("", |(group, _)| group)
            .to_owned()
    };
    let version = target.api_version.as_deref().unwrap_or_default();
    let (_, right) = SCALED.iter().find(|(kind, _)| *kind == target.kind)?;
    (group(version) != group(right)).then(|| {
        let (kind, name) = (&target.kind, &target.name);
        let message =
            format!("scaleTargetRef {kind} {name}: this kind is not in apiVersion {version:?}");
        Finding::new(
            &GM514,
            object,
            message,
            format!("write apiVersion: {right}"),
        )
    })
}
