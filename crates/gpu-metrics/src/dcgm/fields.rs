//! The signals that are polled by default and all their series names. A table, because
//! NVIDIA renames fields (docs/exporter.md, "Fields").

use crate::signal::{SignalId, SignalSpec, Unit};

/// A built-in signal: number, short name, unit, series names.
type Row = (SignalId, &'static str, Unit, &'static [&'static str]);

/// Series names: dcgm-exporter ≥ 2.0, the names of DCGM 4.6, and the bash exporter's
/// (docs/exporter.md, "Generations", "Fields"). `…_RATIO` of field 203 is still 0–100.
const TABLE: [Row; 8] = [
    (
        SignalId::MEM_COPY_UTIL,
        "memory_copy_utilization",
        Unit::Percent,
        &[
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            "DCGM_FI_DEV_MEM_COPY_UTIL_RATIO",
            "dcgm_mem_copy_utilization",
        ],
    ),
    (
        SignalId::DRAM_ACTIVE,
        "dram_active",
        Unit::Ratio,
        &[
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "DCGM_FI_PROF_DRAM_UTIL_RATIO",
            "dcgm_fi_prof_dram_active",
        ],
    ),
    (
        SignalId::GPU_UTIL,
        "gpu_utilization",
        Unit::Percent,
        &[
            "DCGM_FI_DEV_GPU_UTIL",
            "DCGM_FI_DEV_GPU_UTIL_RATIO",
            "dcgm_gpu_utilization",
        ],
    ),
    (
        SignalId::GR_ENGINE_ACTIVE,
        "gr_engine_active",
        Unit::Ratio,
        &[
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
            "dcgm_fi_prof_gr_engine_active",
        ],
    ),
    (
        SignalId::FB_USED,
        "framebuffer_used",
        Unit::Mebibytes,
        &["DCGM_FI_DEV_FB_USED", "dcgm_fb_used"],
    ),
    (
        SignalId::FB_FREE,
        "framebuffer_free",
        Unit::Mebibytes,
        &["DCGM_FI_DEV_FB_FREE", "dcgm_fb_free"],
    ),
    (
        SignalId::FB_RESERVED,
        "framebuffer_reserved",
        Unit::Mebibytes,
        &["DCGM_FI_DEV_FB_RESERVED", "dcgm_fb_reserved"],
    ),
    (
        SignalId::POWER_USAGE,
        "power_usage",
        Unit::Watts,
        &["DCGM_FI_DEV_POWER_USAGE", "dcgm_power_usage"],
    ),
];

/// The built-in signals, in the order of their numbers.
#[must_use]
pub fn built_in() -> Vec<SignalSpec> {
    TABLE
        .into_iter()
        .map(|(id, name, unit, wire_names)| SignalSpec {
            id,
            name: name.to_owned(),
            wire_names: wire_names.iter().map(|&name| name.to_owned()).collect(),
            unit,
        })
        .collect()
}
