//! The signals that are polled by default and all their series names. A table, because
//! NVIDIA renames fields (`crate::dcgm`, "Fields").

use crate::signal::{SignalId, SignalSpec, Unit};

/// The built-in signals in the order of their numbers: unit, short name, series names of
/// dcgm-exporter ≥ 2.0, of DCGM 4.6, and of the bash exporter (`crate::dcgm`,
/// "Generations", "Fields"). `…_RATIO` of field 203 is still 0–100.
pub(crate) const TABLE: [(Unit, &str, &str); 8] = [
    (
        Unit::Percent,
        "memory_copy_utilization",
        "DCGM_FI_DEV_MEM_COPY_UTIL DCGM_FI_DEV_MEM_COPY_UTIL_RATIO dcgm_mem_copy_utilization",
    ),
    (
        Unit::Ratio,
        "dram_active",
        "DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_DRAM_UTIL_RATIO dcgm_fi_prof_dram_active",
    ),
    (
        Unit::Percent,
        "gpu_utilization",
        "DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_GPU_UTIL_RATIO dcgm_gpu_utilization",
    ),
    (
        Unit::Ratio,
        "gr_engine_active",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO \
         dcgm_fi_prof_gr_engine_active",
    ),
    (
        Unit::Mebibytes,
        "framebuffer_used",
        "DCGM_FI_DEV_FB_USED dcgm_fb_used",
    ),
    (
        Unit::Mebibytes,
        "framebuffer_free",
        "DCGM_FI_DEV_FB_FREE dcgm_fb_free",
    ),
    (
        Unit::Mebibytes,
        "framebuffer_reserved",
        "DCGM_FI_DEV_FB_RESERVED dcgm_fb_reserved",
    ),
    (
        Unit::Watts,
        "power_usage",
        "DCGM_FI_DEV_POWER_USAGE dcgm_power_usage",
    ),
];

/// The built-in signals, in the order of their numbers.
#[must_use]
pub fn built_in() -> Vec<SignalSpec> {
    let all = (0..).map(SignalId).zip(TABLE);
    let specs = all.map(|(id, (unit, name, names))| SignalSpec {
        id,
        name: name.to_owned(),
        wire_names: names.split(' ').map(str::to_owned).collect(),
        unit,
    });
    specs.collect()
}
