//! The parts of an autoscaler that can be simulated.

use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use apimachinery::duration::parse_duration;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::policy::{DeviceValue, Measure, Reducer};
use hpa::Hpa;
use hpa::hpa::{Metric, MetricSource, MetricTarget};

/// A utilisation of GPUs, with the settings of its selector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Utilization {
    pub(crate) value: DeviceValue,
    /// Whether each pod has a value; otherwise the workload has one.
    pub(crate) is_of_pods: bool,
    /// Whether the value is the sum over the devices; otherwise it is the mean.
    pub(crate) is_sum: bool,
    pub(crate) window: Option<Duration>,
}

/// An autoscaler that can be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The input of the controller's arithmetic.
    pub(crate) hpa: Hpa,
    /// `None`: a metric of a rule, whose value does not depend on the replicas.
    pub(crate) metric: Option<Utilization>,
    /// The target of the file.
    pub(super) target: f64,
}

/// More replicas than any cluster has GPUs for.
pub(super) const MOST_REPLICAS: i32 = 10_000;

const REFUSED: &str = "cannot be simulated: only gpu_memory_utilization, gpu_utilization and their \
                       sums, of pods or of the workload itself, with no selector but window, and \
                       metrics of rules with an AverageValue";

impl Plan {
    /// The plan of an autoscaler; `namespace` is the default for manifests without one.
    /// Metrics of the configuration read other fields and cannot be simulated.
    ///
    /// # Errors
    /// When its metric, or its number of replicas, cannot be simulated.
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
        let [metric] = &*hpa.metrics else {
            let count = hpa.metrics.len();
            return Err(format!(
                "spec.metrics has {count} metrics: try one at a time"
            ));
        };
        let name = metric.source.name();
        let refused = || format!("spec.metrics[0]: {name} {REFUSED}");
        let built_in = metrics::built_in();
        let known = built_in.iter().find(|spec| spec.name == name);
        let metric_of_gpus = match known {
            Some(spec) => {
                let known = utilization(&spec.measure).ok_or_else(refused)?;
                Some(Utilization {
                    value: known.0,
                    is_of_pods: is_of_pods(&metric.source, &hpa).ok_or_else(refused)?,
                    is_sum: known.1,
                    window: window(metric.source.selector()).ok_or_else(refused)?,
                })
            }
            None if is_of_rule(metric) => None,
            None => return Err(refused()),
        };
        Ok(Self {
            metric: metric_of_gpus,
            target: metric.target.number(),
            hpa,
        })
    }
}

impl Plan {
    /// Whether the metric has one value, and not a list that is added up.
    pub(crate) fn is_of_object(&self) -> bool {
        matches!(self.source(), Some(MetricSource::Object { .. }))
    }

    /// Whether each pod has a value of the metric.
    pub(crate) fn is_of_pods(&self) -> bool {
        matches!(self.source(), Some(MetricSource::Pods { .. }))
    }

    fn source(&self) -> Option<&MetricSource> {
        self.hpa.metrics.first().map(|metric| &metric.source)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hpa.namespace, self.hpa.name)
    }
}

/// Whether a metric that is not built in is divided by the replicas. With a target of type Value,
/// replicas settle only if more of them lower the value.
const fn is_of_rule(metric: &Metric) -> bool {
    !matches!(metric.source, MetricSource::Resource { .. })
        && matches!(metric.target, MetricTarget::AverageValue(_))
}

/// Whether each pod has a value; `None`: neither the pods nor the workload have one.
fn is_of_pods(source: &MetricSource, hpa: &Hpa) -> Option<bool> {
    match source {
        MetricSource::Pods { .. } => Some(true),
        MetricSource::Object { described, .. } => {
            let own = (&hpa.scaled.kind, &hpa.scaled.name);
            ((&described.kind, &described.name) == own).then_some(false)
        }
        MetricSource::External { .. } | MetricSource::Resource { .. } => None,
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
