//! The metrics that an HPA requests from a metrics server.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscalerSpec, MetricIdentifier, MetricTarget,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use apimachinery::quantity::parse_milli;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::policy::{DeviceValue, Measure, Over, Reducer};

/// The API of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Pods,
    Object,
    External,
}

/// A metric of an HPA that a metrics server serves.
#[derive(Debug)]
pub(super) struct Metric<'h> {
    pub(super) api: Api,
    pub(super) name: &'h str,
    pub(super) selector: Option<&'h LabelSelector>,
    pub(super) target: &'h MetricTarget,
}

impl<'h> Metric<'h> {
    fn new(api: Api, metric: &'h MetricIdentifier, target: &'h MetricTarget) -> Self {
        Self {
            api,
            name: &metric.name,
            selector: metric.selector.as_ref(),
            target,
        }
    }

    /// Its measure, if it is built in.
    pub(super) fn measure(&self) -> Option<Measure> {
        let name = self.name.strip_prefix("cluster_").unwrap_or(self.name);
        let mut known = metrics::built_in().into_iter();
        Some(known.find(|spec| spec.name == name)?.measure)
    }

    /// Whether it is a mean of percentages.
    pub(super) fn is_percentage(&self) -> bool {
        match self.measure() {
            Some(Measure::OriginalAverage) => true,
            Some(Measure::Devices { value, reducer, .. }) => {
                let is_percent = matches!(
                    value,
                    DeviceValue::MemoryUtilization
                        | DeviceValue::GpuUtilization
                        | DeviceValue::MemoryUsedPercent
                );
                is_percent && reducer != Reducer::Sum
            }
            _ => false,
        }
    }

    /// Whether idle GPUs do not lower it.
    pub(super) fn is_of_active_only(&self) -> bool {
        let active = |over| over == Over::Active;
        match self.measure() {
            Some(Measure::OriginalAverage) => true,
            Some(Measure::Devices { over, reducer, .. }) => {
                reducer == Reducer::Mean && active(over)
            }
            _ => false,
        }
    }

    /// The target, thousandths.
    pub(super) fn target(&self) -> Option<i64> {
        let quantity = self
            .target
            .average_value
            .as_ref()
            .or(self.target.value.as_ref())?;
        parse_milli(&quantity.0).filter(|milli| *milli > 0)
    }

    /// A setting in the selector.
    pub(super) fn setting(&self, key: &str) -> Option<&str> {
        let labels = self.selector?.match_labels.as_ref()?;
        labels.get(key).map(String::as_str)
    }
}

/// The metrics of an HPA except CPU and memory.
pub(super) fn metrics_of(spec: &HorizontalPodAutoscalerSpec) -> Vec<Metric<'_>> {
    let all = spec.metrics.iter().flatten();
    let found = all.filter_map(|metric| {
        let pods = metric.pods.as_ref();
        let pods = pods.map(|it| Metric::new(Api::Pods, &it.metric, &it.target));
        let object = metric.object.as_ref();
        let object = object.map(|it| Metric::new(Api::Object, &it.metric, &it.target));
        let external = metric.external.as_ref();
        let external = external.map(|it| Metric::new(Api::External, &it.metric, &it.target));
        pods.or(object).or(external)
    });
    found.collect()
}
