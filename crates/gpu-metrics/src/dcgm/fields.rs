//! The signals that are polled by default and all their series names. A table, because
//! NVIDIA renames fields (`crate::dcgm`, "Fields").

use crate::signal::{SignalId, SignalSpec, Unit};

/// Declares the built-in signals: constant, unit, short name, and the series names of
/// dcgm-exporter ≥ 2.0, of DCGM 4.6, and of the bash exporter (`crate::dcgm`, "Generations",
/// "Fields"). `…_RATIO` of field 203 is still 0–100.
macro_rules! fields {
    ($($(#[$about:meta])* $id:ident $unit:ident $name:literal: $names:literal;)*) => {
        #[allow(non_camel_case_types)]
        enum Number { $($id),* }

        impl SignalId {
            $($(#[$about])* pub const $id: Self = Self(Number::$id as u16);)*

            /// The built-in signals, in the order of their numbers.
            pub const BUILT_IN: &[Self] = &[$(Self::$id),*];
        }

        pub(crate) const TABLE: &[(Unit, &str, &str)] = &[$((Unit::$unit, $name, $names)),*];
    };
}

fields! {
    /// Share of time the device memory was read or written (id 204; no series on MIG).
    MEM_COPY_UTIL Percent "memory_copy_utilization":
        "DCGM_FI_DEV_MEM_COPY_UTIL DCGM_FI_DEV_MEM_COPY_UTIL_RATIO dcgm_mem_copy_utilization";
    /// DRAM interface active (id 1005).
    DRAM_ACTIVE Ratio "dram_active":
        "DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_DRAM_UTIL_RATIO dcgm_fi_prof_dram_active";
    /// Share of time a kernel ran (id 203; no series on MIG).
    GPU_UTIL Percent "gpu_utilization":
        "DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_GPU_UTIL_RATIO dcgm_gpu_utilization";
    /// Graphics engine active (id 1001).
    GR_ENGINE_ACTIVE Ratio "gr_engine_active":
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO dcgm_fi_prof_gr_engine_active";
    /// Framebuffer used (id 252).
    FB_USED Mebibytes "framebuffer_used": "DCGM_FI_DEV_FB_USED dcgm_fb_used";
    /// Framebuffer free (id 251).
    FB_FREE Mebibytes "framebuffer_free": "DCGM_FI_DEV_FB_FREE dcgm_fb_free";
    /// Framebuffer reserved (id 253).
    FB_RESERVED Mebibytes "framebuffer_reserved": "DCGM_FI_DEV_FB_RESERVED dcgm_fb_reserved";
    /// Power draw (id 155).
    POWER_USAGE Watts "power_usage": "DCGM_FI_DEV_POWER_USAGE dcgm_power_usage";
}

/// The built-in signals, in the order of their numbers.
#[must_use]
pub fn built_in() -> Vec<SignalSpec> {
    let all = SignalId::BUILT_IN.iter().zip(TABLE);
    let specs = all.map(|(id, (unit, name, names))| SignalSpec {
        id: *id,
        name: (*name).to_owned(),
        wire_names: names.split(' ').map(str::to_owned).collect(),
        unit: *unit,
    });
    specs.collect()
}
