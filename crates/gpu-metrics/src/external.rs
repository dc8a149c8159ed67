//! The names of external metrics: of a namespace, or of the whole cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::{DeviceValue, Measure, MetricSpec, Over, Reducer};

/// Prefix of external metrics of the whole cluster.
pub const CLUSTER_PREFIX: &str = "cluster_";

/// Metric names in NVIDIA's recipes and in its validator's check (NVIDIA/aicr
/// `recipes/components/prometheus-adapter/values.yaml`,
/// `validators/conformance/pod_autoscaling_check.go`), each with the value it averages.
const FLEET: [(&str, DeviceValue); 3] = [
    ("dcgm_gpu_memory_used", DeviceValue::MemoryUsed),
    ("dcgm_gpu_power_usage", DeviceValue::PowerUsage),
    ("dcgm_gpu_utilization", DeviceValue::GpuUtilization),
];

/// The window in those recipes: `avg(avg_over_time(X[2m]))`.
pub const FLEET_WINDOW: Duration = Duration::from_secs(120);

/// The devices of an external metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The devices held in the namespace of the request.
    Namespace,
    /// All devices, by the metric's definition.
    Cluster,
    /// All devices, by the prefix of the name.
    Prefixed,
    /// All devices, over the window of the recipes.
    Fleet,
}

/// The external metrics of a configuration.
#[derive(Clone, Debug)]
pub struct ExternalMetrics {
    metrics: Arc<[MetricSpec]>,
    /// The means over all GPUs of the cluster, active or not.
    fleet: Vec<MetricSpec>,
}

impl ExternalMetrics {
    /// The external metrics of these metrics. An empty list means that GPU metrics are off.
    #[must_use]
    pub fn new(metrics: Arc<[MetricSpec]>) -> Self {
        let mean = |(name, value): (&str, DeviceValue)| MetricSpec {
            name: name.to_owned(),
            measure: Measure::Devices {
                value,
                reducer: Reducer::Mean,
                over: Over::All,
            },
        };
        let fleet = match metrics.is_empty() {
            true => Vec::new(),
            false => FLEET.map(mean).into(),
        };
        Self { metrics, fleet }
    }

    /// The names of all of them, sorted.
    #[must_use]
    pub fn names(&self) -> Arc<[Arc<str>]> {
        let clusterwide = (self.metrics.iter())
            .filter(|metric| metric.measure != Measure::OriginalAverage)
            .map(|metric| format!("{CLUSTER_PREFIX}{}", metric.name).into());
        let own = self.metrics.iter().chain(&self.fleet);
        let own = own.map(|metric| Arc::from(metric.name.as_str()));
        let all: BTreeSet<Arc<str>> = own.chain(clusterwide).collect();
        all.into_iter().collect()
    }

    /// The metric of that name, ignoring case, with its index: the configured metrics,
    /// then those of the fleet. Configured names take precedence: one may itself begin
    /// with the prefix.
    #[must_use]
    pub fn named(&self, asked: &str) -> Option<(usize, &MetricSpec, Reach)> {
        if let Some((place, spec)) = self.configured(asked) {
            let reach = match spec.measure {
                Measure::OriginalAverage => Reach::Cluster,
                _ => Reach::Namespace,
            };
            return Some((place, spec, reach));
        }
        let mut fleet = self.fleet.iter().zip(self.metrics.len()..);
        if let Some((spec, place)) = fleet.find(|(spec, _)| spec.name.eq_ignore_ascii_case(asked)) {
            return Some((place, spec, Reach::Fleet));
        }
        let (prefix, bare) = asked.split_at_checked(CLUSTER_PREFIX.len())?;
        if !prefix.eq_ignore_ascii_case(CLUSTER_PREFIX) {
            return None;
        }
        let (place, spec) = self.configured(bare)?;
        (spec.measure != Measure::OriginalAverage).then_some((place, spec, Reach::Prefixed))
    }

    fn configured(&self, name: &str) -> Option<(usize, &MetricSpec)> {
        let mut metrics = self.metrics.iter().enumerate();
        metrics.find(|(_, metric)| metric.name.eq_ignore_ascii_case(name))
    }
}
