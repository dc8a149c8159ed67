//! The parts of an autoscaler that can be simulated.

use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use apimachinery::duration::parse_duration;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::external::CLUSTER_PREFIX;
use gpu_metrics::policy::{DeviceValue, Measure, Reducer};
use hpa::Hpa;
use hpa::hpa::MetricSource;

/// The devices whose readings make a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceScope {
    Pod,
    Workload,
    /// The devices of its namespace: other workloads count too, with their recorded
    /// load.
    Namespace,
}

/// One metric of the autoscaler, with the settings of its selector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlannedMetric {
    pub(crate) reach: DeviceScope,
    /// Whether the value is the sum over the devices; otherwise it is the mean.
    pub(crate) is_sum: bool,
    pub(crate) window: Option<Duration>,
}

/// An autoscaler that can be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The input of the controller's arithmetic.
    pub(crate) hpa: Hpa,
    pub(crate) utilization: DeviceValue,
    /// The metrics, in the order of the specification.
    pub(crate) asked: Vec<PlannedMetric>,
}

/// More replicas than any cluster has GPUs for.
pub(super) const MOST_REPLICAS: i32 = 10_000;

const OTHER: &str = "is not a utilisation of GPUs: its value with other \
                     replicas cannot be computed from the recorded data";
const FIXED: &str = "does not divide among replicas: counts, memory in use and power depend on the \
                     number of replicas and not on the demand";
const WIDER: &str = "covers more than the namespace, or an object that is not the workload's own: \
                     its history is not read";
const LABELS: &str = "has a label selector, which the recorded data cannot answer; only window is \
                      supported";

impl Plan {
    /// The plan of an autoscaler; `namespace` is the default for manifests without one.
    /// Metrics of the configuration read other fields and cannot be simulated.
    ///
    /// # Errors
    /// When one of its metrics, or its number of replicas, cannot be simulated.
    pub fn read(mut hpa: Hpa, namespace: &str) -> Result<Self, String> {
        let most = hpa.max.max(hpa.min);
        if most > MOST_REPLICAS {
            return Err(format!(
                "spec.maxReplicas is {most}: at most {MOST_REPLICAS} are tried"
            ));
        }
        if hpa.namespace.is_empty() {
            namespace.clone_into(&mut hpa.namespace);
        }
        let built_in = metrics::built_in();
        let mut asked = Vec::new();
        let mut utilizations = Vec::new();
        for (index, metric) in hpa.metrics.iter().enumerate() {
            let name = metric.source.name();
            let refused =
                |why| format!("spec.metrics[{index}]: {name} {why}; remove it to try the others");
            let reach = reach(&metric.source, &hpa).map_err(refused)?;
            let known = built_in.iter().find(|spec| match reach {
                DeviceScope::Namespace => spec.name.eq_ignore_ascii_case(name),
                DeviceScope::Pod | DeviceScope::Workload => spec.name == name,
            });
            let known = known.ok_or_else(|| refused(OTHER))?;
            let (value, is_sum) = utilization(&known.measure).ok_or_else(|| refused(FIXED))?;
            utilizations.push(value);
            let window = window(metric.source.selector()).ok_or_else(|| refused(LABELS))?;
            asked.push(PlannedMetric {
                reach,
                is_sum,
                window,
            });
        }
        let utilization = match utilizations.as_slice() {
            [first, rest @ ..] if rest.iter().all(|other| other == first) => *first,
            _ => {
                let why = "spec.metrics has memory and GPU utilisation: their demands differ; try one at a time";
                return Err(why.to_owned());
            }
        };
        Ok(Self {
            utilization,
            asked,
            hpa,
        })
    }

    pub(crate) fn looks_at_namespace(&self) -> bool {
        let mut reaches = self.asked.iter().map(|it| it.reach);
        reaches.any(|it| it == DeviceScope::Namespace)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hpa.namespace, self.hpa.name)
    }
}

fn reach(source: &MetricSource, hpa: &Hpa) -> Result<DeviceScope, &'static str> {
    let scaled = (hpa.scaled.kind.as_str(), hpa.scaled.name.as_str());
    match source {
        MetricSource::Pods { .. } => Ok(DeviceScope::Pod),
        MetricSource::Object { described, .. } => {
            match (described.kind.as_str(), described.name.as_str()) {
                object if object == scaled => Ok(DeviceScope::Workload),
                // The controller reads the autoscaler's namespace, whichever is named.
                ("Namespace", _) => Ok(DeviceScope::Namespace),
                _ => Err(WIDER),
            }
        }
        MetricSource::External { metric } => {
            let name = metric.name.to_ascii_lowercase();
            match name.starts_with(CLUSTER_PREFIX) {
                true => Err(WIDER),
                false => Ok(DeviceScope::Namespace),
            }
        }
        MetricSource::Resource { .. } => Err(OTHER),
    }
}

/// The utilisation of a measure, and whether it is a sum. With evenly shared demand
/// the maximum equals the mean.
fn utilization(measure: &Measure) -> Option<(DeviceValue, bool)> {
    let Measure::Devices { value, reducer, .. } = measure else {
        return None;
    };
    let known = [DeviceValue::MemoryUtilization, DeviceValue::GpuUtilization];
    known
        .contains(value)
        .then_some((*value, *reducer == Reducer::Sum))
}

/// The window of a selector, if it has one; `None` if it has other requirements too.
fn window(selector: Option<&LabelSelector>) -> Option<Option<Duration>> {
    let mut window = None;
    let Some(selector) = selector else {
        return Some(window);
    };
    if selector.match_expressions.iter().flatten().next().is_some() {
        return None;
    }
    for (key, value) in selector.match_labels.iter().flatten() {
        match key.as_str() {
            "window" => window = Some(parse_duration(value).ok()?),
            _ => return None,
        }
    }
    Some(window)
}
