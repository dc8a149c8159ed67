//! The names of external metrics: of a namespace, or of the whole cluster.

use std::collections::HashSet;
use std::time::Duration;

use crate::policy::{DeviceValue, Measure, MetricSpec, Over, Reducer};

/// Prefix of external metrics of the whole cluster.
const CLUSTER_PREFIX: &str = "cluster_";

/// Metric names in NVIDIA's recipes and in its validator's check (NVIDIA/aicr
/// `recipes/components/prometheus-adapter/values.yaml`,
/// `validators/conformance/pod_autoscaling_check.go`), each with the value it averages over all
/// GPUs, active or not.
const FLEET: [(&str, DeviceValue); 3] = [
    ("dcgm_gpu_memory_used", DeviceValue::MemoryUsed),
    ("dcgm_gpu_power_usage", DeviceValue::PowerUsage),
    ("dcgm_gpu_utilization", DeviceValue::GpuUtilization),
];

/// The window in those recipes: `avg(avg_over_time(X[2m]))`.
const FLEET_WINDOW: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub struct ExternalMetric {
    pub spec: MetricSpec,
    /// The place of its metric in the configuration; those of the fleet follow.
    pub place: usize,
    /// Whether it is of all devices; otherwise of those held in the namespace of the request.
    pub is_of_cluster: bool,
    /// `None`: the default one.
    pub window: Option<Duration>,
}

/// The external metrics of a configuration.
#[derive(Clone, Debug)]
pub struct ExternalMetrics(Vec<ExternalMetric>);

impl ExternalMetrics {
    /// The external metrics of these metrics. An empty list means that GPU metrics are off.
    /// Configured names take precedence: one may itself begin with the prefix.
    #[must_use]
    pub fn new(metrics: &[MetricSpec]) -> Self {
        let configured = (0..).zip(metrics).map(|(place, spec)| ExternalMetric {
            spec: spec.clone(),
            place,
            is_of_cluster: spec.measure == Measure::OriginalAverage,
            window: None,
        });
        let fleet = FLEET.iter().filter(|_| !metrics.is_empty());
        let fleet = (metrics.len()..).zip(fleet);
        let fleet = fleet.map(|(place, (name, value))| ExternalMetric {
            spec: MetricSpec {
                name: (*name).to_owned(),
                measure: Measure::Devices {
                    value: *value,
                    reducer: Reducer::Mean,
                    over: Over::All,
                },
            },
            place,
            is_of_cluster: true,
            window: Some(FLEET_WINDOW),
        });
        let of_namespaces = configured.clone().filter(|it| !it.is_of_cluster);
        let prefixed = of_namespaces.map(|mut metric| {
            metric.spec.name.insert_str(0, CLUSTER_PREFIX);
            metric.is_of_cluster = true;
            metric
        });
        let mut all: Vec<_> = configured.chain(fleet).chain(prefixed).collect();
        let mut names = HashSet::new();
        all.retain(|metric| names.insert(metric.spec.name.to_ascii_lowercase()));
        Self(all)
    }

    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|metric| &*metric.spec.name)
    }

    /// The metric of that name, ignoring case.
    #[must_use]
    pub fn named(&self, asked: &str) -> Option<&ExternalMetric> {
        let mut all = self.0.iter();
        all.find(|metric| metric.spec.name.eq_ignore_ascii_case(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dcgm::metrics;

    #[test]
    fn a_metric_is_found_by_its_name_in_any_case() {
        let all = ExternalMetrics::new(&metrics::built_in());
        let found = all.named("CLUSTER_gpu_held_count");
        assert_eq!(
            found.map(|it| &*it.spec.name),
            Some("cluster_gpu_held_count")
        );
        assert!(all.named("cluster_gpu_held").is_none());
        assert!(all.names().any(|name| name == "gpu_held_count"));
    }
}
