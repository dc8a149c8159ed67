//! The metrics that are served without configuration
//! (docs/concepts.md, "What is served").

use crate::policy::{DeviceValue, Measure, MetricSpec, Over, Reducer};

/// The main metric.
pub const MEMORY_UTILIZATION: &str = "gpu_memory_utilization";

/// The original exporter's name of its number. The name says GPU, the content is memory
/// (docs/numbers.md, "The original's number").
pub const ORIGINAL_AVERAGE: &str = "avg_GPU_utilization";

const fn devices(value: DeviceValue, reducer: Reducer, over: Over) -> Measure {
    Measure::Devices {
        value,
        reducer,
        over,
    }
}

const TABLE: [(&str, Measure); 10] = [
    (
        MEMORY_UTILIZATION,
        devices(DeviceValue::MemoryUtilization, Reducer::Mean, Over::Active),
    ),
    (
        "gpu_memory_utilization_sum",
        devices(DeviceValue::MemoryUtilization, Reducer::Sum, Over::Active),
    ),
    (
        "gpu_utilization",
        devices(DeviceValue::GpuUtilization, Reducer::Mean, Over::Active),
    ),
    (
        "gpu_memory_used",
        devices(DeviceValue::MemoryUsed, Reducer::Sum, Over::All),
    ),
    (
        "gpu_memory_used_percent",
        devices(DeviceValue::MemoryUsedPercent, Reducer::Mean, Over::All),
    ),
    (
        "gpu_power_usage",
        devices(DeviceValue::PowerUsage, Reducer::Sum, Over::All),
    ),
    ("gpu_held_count", Measure::HeldCount),
    ("gpu_active_count", Measure::ActiveCount),
    ("gpu_idle_count", Measure::IdleCount),
    (ORIGINAL_AVERAGE, Measure::OriginalAverage),
];

#[must_use]
pub fn built_in() -> Vec<MetricSpec> {
    TABLE
        .into_iter()
        .map(|(name, measure)| MetricSpec {
            name: name.to_owned(),
            measure,
        })
        .collect()
}
