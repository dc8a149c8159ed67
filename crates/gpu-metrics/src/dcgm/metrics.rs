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

/// The built-in metrics: name, measure, and meaning in docs/concepts.md.
pub const TABLE: [(&str, Measure, &str); 10] = [
    (
        MEMORY_UTILIZATION,
        devices(DeviceValue::MemoryUtilization, Reducer::Mean, Over::Active),
        "percent: the mean of the memory bandwidth of the active GPUs; 0 when all are idle",
    ),
    (
        "gpu_memory_utilization_sum",
        devices(DeviceValue::MemoryUtilization, Reducer::Sum, Over::Active),
        "the same as a sum: the demand, which does not fall when replicas are added",
    ),
    (
        "gpu_utilization",
        devices(DeviceValue::GpuUtilization, Reducer::Mean, Over::Active),
        "percent: the mean of the GPU utilisation of the active GPUs",
    ),
    (
        "gpu_memory_used",
        devices(DeviceValue::MemoryUsed, Reducer::Sum, Over::All),
        "MiB of framebuffer in use: the sum over all GPUs",
    ),
    (
        "gpu_memory_used_percent",
        devices(DeviceValue::MemoryUsedPercent, Reducer::Mean, Over::All),
        "percent of the framebuffer in use: used ÷ (used + free + reserved), all GPUs together",
    ),
    (
        "gpu_power_usage",
        devices(DeviceValue::PowerUsage, Reducer::Sum, Over::All),
        "watts: the sum over all GPUs; a board with MIG instances counts once",
    ),
    ("gpu_held_count", Measure::HeldCount, "held GPUs"),
    ("gpu_active_count", Measure::ActiveCount, "active GPUs"),
    ("gpu_idle_count", Measure::IdleCount, "idle GPUs"),
    (
        ORIGINAL_AVERAGE,
        Measure::OriginalAverage,
        "percent: the cluster-wide number of [an earlier exporter](migrate/exporters.md); of namespaces, and external",
    ),
];

#[must_use]
pub fn built_in() -> Vec<MetricSpec> {
    TABLE
        .into_iter()
        .map(|(name, measure, _)| MetricSpec {
            name: name.to_owned(),
            measure,
        })
        .collect()
}
