//! The metrics that an HPA requests from a metrics server.

use ::hpa::Hpa;
use ::hpa::hpa::{Metric, MetricSource};
use gpu_metrics::dcgm::metrics;
use gpu_metrics::external::{ExternalMetrics, Reach};
use gpu_metrics::policy::{DeviceValue, Measure, Over, Reducer};

/// The metrics of an HPA except CPU and memory.
pub(super) fn metrics_of(hpa: &Hpa) -> Vec<&Metric> {
    let of_server = |metric: &&Metric| !matches!(metric.source, MetricSource::Resource { .. });
    hpa.metrics.iter().filter(of_server).collect()
}

/// The measure of a built-in metric; `None` for other metrics.
pub(super) fn measure(metric: &Metric) -> Option<Measure> {
    if let MetricSource::External { .. } = metric.source {
        return external(metric).map(|(measure, _)| measure);
    }
    let name = metric.source.name();
    let mut known = metrics::built_in().into_iter();
    Some(known.find(|spec| spec.name == name)?.measure)
}

/// Whether it is an external metric over all GPUs of the cluster, which has a value
/// without pods.
pub(super) fn is_of_cluster(metric: &Metric) -> bool {
    external(metric).is_some_and(|(_, reach)| reach != Reach::Namespace)
}

/// The measure and the devices of a built-in external metric.
fn external(metric: &Metric) -> Option<(Measure, Reach)> {
    let MetricSource::External { metric, .. } = &metric.source else {
        return None;
    };
    let known = ExternalMetrics::new(metrics::built_in().into());
    let (_, spec, reach) = known.named(metric)?;
    Some((spec.measure, reach))
}

/// Whether it is a mean of percentages.
pub(super) fn is_percentage(metric: &Metric) -> bool {
    match measure(metric) {
        Some(Measure::OriginalAverage) => true,
        Some(Measure::Devices { value, reducer, .. }) => {
            use DeviceValue::{GpuUtilization, MemoryUsedPercent, MemoryUtilization};
            let percent = [MemoryUtilization, GpuUtilization, MemoryUsedPercent];
            percent.contains(&value) && reducer != Reducer::Sum
        }
        _ => false,
    }
}

/// Whether it is a mean over active GPUs, which idle GPUs do not lower.
pub(super) fn is_of_active_only(metric: &Metric) -> bool {
    match measure(metric) {
        Some(Measure::OriginalAverage) => true,
        Some(Measure::Devices { over, reducer, .. }) => {
            reducer == Reducer::Mean && over == Over::Active
        }
        _ => false,
    }
}

/// The value of a setting in the metric's selector.
pub(super) fn setting<'m>(metric: &'m Metric, key: &str) -> Option<&'m str> {
    let labels = metric.source.selector()?.match_labels.as_ref()?;
    labels.get(key).map(String::as_str)
}
