//! The signals that are polled by default and all their series names. A table, because
//! NVIDIA renames fields (`crate::dcgm`, "Fields").

use crate::signal::{SignalId, SignalSpec};

/// A built-in signal: number, short name, series names.
type BuiltIn = (SignalId, &'static str, &'static [&'static str]);

/// Series names: dcgm-exporter ≥ 2.0, the names of DCGM 4.6, and the bash exporter's
/// (`crate::dcgm`, "Generations", "Fields"). `…_RATIO` of field 203 is still 0–100.
const TABLE: [BuiltIn; 8] = [
    (
        SignalId::MEM_COPY_UTIL,
        "memory_copy_utilization",
        &[
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            "DCGM_FI_DEV_MEM_COPY_UTIL_RATIO",
            "dcgm_mem_copy_utilization",
        ],
    ),
    (
        SignalId::DRAM_ACTIVE,
        "dram_active",
        &[
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "DCGM_FI_PROF_DRAM_UTIL_RATIO",
            "dcgm_fi_prof_dram_active",
        ],
    ),
    (
        SignalId::GPU_UTIL,
        "gpu_utilization",
        &[
            "DCGM_FI_DEV_GPU_UTIL",
            "DCGM_FI_DEV_GPU_UTIL_RATIO",
            "dcgm_gpu_utilization",
        ],
    ),
    (
        SignalId::GR_ENGINE_ACTIVE,
        "gr_engine_active",
        &[
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
            "dcgm_fi_prof_gr_engine_active",
        ],
    ),
    (
        SignalId::FB_USED,
        "framebuffer_used",
        &["DCGM_FI_DEV_FB_USED", "dcgm_fb_used"],
    ),
    (
        SignalId::FB_FREE,
        "framebuffer_free",
        &["DCGM_FI_DEV_FB_FREE", "dcgm_fb_free"],
    ),
    (
        SignalId::FB_RESERVED,
        "framebuffer_reserved",
        &["DCGM_FI_DEV_FB_RESERVED", "dcgm_fb_reserved"],
    ),
    (
        SignalId::POWER_USAGE,
        "power_usage",
        &["DCGM_FI_DEV_POWER_USAGE", "dcgm_power_usage"],
    ),
];

/// The built-in signals, in the order of their numbers.
#[must_use]
pub fn built_in() -> Vec<SignalSpec> {
    TABLE
        .into_iter()
        .map(|(id, name, wire_names)| SignalSpec {
            id,
            name: name.to_owned(),
            wire_names: wire_names.iter().map(|&name| name.to_owned()).collect(),
            unit: id.unit(),
        })
        .collect()
}
