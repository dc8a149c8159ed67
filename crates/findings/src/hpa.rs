//! Findings from an HPA alone: names, targets, limits.
//!
//! The controller's decisions: `k8s.io/kubernetes`
//! `pkg/controller/podautoscaler/{horizontal,replica_calculator}.go`.

use std::collections::BTreeSet;

use super::codes::{GM501, GM509, GM515, GM516, GM518};
use super::names::nearest;
use super::shape::{self, metrics_of, of_pods, usual};
use super::{Finding, Severity};
use ::hpa::health::Health;
use ::hpa::hpa::{Metric, MetricSource};
use ::hpa::{ControllerFlags, Hpa, NEWEST};
use gpu_metrics::dcgm::metrics;
use gpu_metrics::external::ExternalMetrics;

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
    let (asked, built_in) = (metrics_of(hpa), built_in());
    let mut found = Vec::new();
    for metric in &asked {
        let names = served.unwrap_or(&built_in).sides(&metric.source);
        found.extend(not_served(&object, metric, names, served.is_some()));
        found.extend(shape::target(&object, metric, flags.tolerances(hpa).up));
    }
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
    let external = ExternalMetrics::new(&metrics);
    ServedMetrics {
        external: Some(external.names().map(str::to_owned).collect()),
        custom: Some(custom),
    }
}

/// A name that is not among those of its API. `is_certain`: the names are those of the cluster,
/// with the metrics of its rules.
fn not_served(
    object: &str,
    metric: &Metric,
    [here, there]: [Option<&BTreeSet<String>>; 2],
    is_certain: bool,
) -> Option<Finding> {
    let name = metric.source.name();
    let here = here.filter(|here| !here.contains(name))?;
    let is_there = there.is_some_and(|there| there.contains(name));
    let (other, types) = match metric.source {
        MetricSource::External { .. } => ("custom", "Pods or Object"),
        _ => ("external", "External"),
    };
    if is_there {
        let message = format!("{name} is served by the {other} metrics API only");
        let remedy = format!("request it from that API: use type {types}");
        return Some(Finding::new(&GM501, object, message).with_remedy(remedy));
    }
    if let Some(meant) = usual(name) {
        return Some(foreign_name(object, metric, meant, is_certain));
    }
    let finding = Finding::new(&GM501, object, format!("no metric {name} is served"));
    match nearest(name, here.iter().map(String::as_str), name.len() / 4) {
        Some(near) => Some(finding.with_remedy(format!("is {near} meant?"))),
        // A rule may provide it, which an HPA's file does not show.
        None => is_certain.then_some(finding),
    }
}

/// The usual name of others for a built-in metric, which no rule serves. Their number can have
/// another unit than MiB or watts.
fn foreign_name(object: &str, metric: &Metric, meant: &str, is_certain: bool) -> Finding {
    let name = metric.source.name();
    let (unless, severity) = match is_certain {
        true => ("", Severity::Error),
        false => (" unless a rule serves it", Severity::Warning),
    };
    let message = format!(
        "no metric {name} is served{unless}: it is the name of a resource, a field or of another exporter"
    );
    let target = match meant {
        "gpu_memory_used" => "MIB".to_owned(),
        "gpu_power_usage" => "WATTS".to_owned(),
        _ => metric.target.number().to_string(),
    };
    let line = of_pods(meant, &target);
    let remedy = format!("write {line}: {meant} is served without a rule");
    let finding = Finding::new(&GM501, object, message).with_remedy(remedy);
    finding.with_severity(severity)
}

/// What the controller's conditions say. A missing value that another finding explains is not
/// reported.
fn health(object: &str, hpa: &Hpa, flags: &ControllerFlags, is_explained: bool) -> Option<Finding> {
    let health = Health::of(hpa);
    let (code, severity) = match &health {
        Health::NoScale(_) => (&GM515, Severity::Error),
        Health::NoMetric(_) if !is_explained => (&GM515, Severity::Error),
        Health::MetricsMissing(_) if !is_explained => (&GM515, Severity::Warning),
        Health::AtMaximum { .. } => (&GM516, Severity::Warning),
        // With a minimum above zero this is how scaling is switched off.
        Health::SwitchedOff if hpa.min > 0 => (&GM509, Severity::Info),
        Health::SwitchedOff if flags.records_zero() => (&GM509, Severity::Warning),
        _ => return None,
    };
    let finding = Finding::new(code, object, health.to_string()).with_severity(severity);
    let place = format!("{}/{}", hpa.namespace, hpa.name);
    let remedy = finding.remedy.replace("NAMESPACE/NAME", &place);
    Some(finding.with_remedy(remedy))
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
    let message = match (is_gone, error) {
        (Some((_, since)), _) => format!("{version} is not served since Kubernetes 1.{since}"),
        (None, Some(error)) => error.to_owned(),
        (None, None) if removed.is_some() || version == "autoscaling/v2" => return None,
        (None, None) => format!("apiVersion {version:?} has no HorizontalPodAutoscaler"),
    };
    Some(Finding::new(&GM518, object, message))
}
