//! Generations of dcgm-exporter (`gpu_metrics::dcgm`, "Generations"), and the fields that they
//! print.

/// A generation of dcgm-exporter, named by its first release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// 1.x with pod-gpu-metrics-exporter.
    V1Pod,
    /// 2.0.13-2.1.1: empty labels when idle.
    V2_1,
    /// 3.1.6-3.1.3: empty labels when idle.
    V3_1,
    /// 3.3.5-3.4.1: no labels when idle.
    V3_3,
    /// 4.1.1-4.0.3: `pci_bus_id`, sharing mode.
    V4_1,
    /// 4.5.3-4.8.2: `FB_RESERVED`, lines per process in sharing mode.
    V4_5_3,
    /// 4.6.0-4.8.3: `hostname`.
    V4_8_3,
}

impl Profile {
    /// All generations.
    pub(crate) const ALL: [Self; 7] = [
        Self::V1Pod,
        Self::V2_1,
        Self::V3_1,
        Self::V3_3,
        Self::V4_1,
        Self::V4_5_3,
        Self::V4_8_3,
    ];

    /// Its name of a field, if it prints the field.
    pub(crate) const fn wire_name(self, field: Field, renamed: bool) -> Option<&'static str> {
        let renamed = renamed && matches!(self, Self::V4_8_3);
        let old = matches!(self, Self::V1Pod);
        let no_profiling = matches!(self, Self::V1Pod | Self::V2_1);
        Some(match field {
            Field::MemCopyUtil if old => "dcgm_mem_copy_utilization",
            Field::MemCopyUtil => "DCGM_FI_DEV_MEM_COPY_UTIL",
            Field::GpuUtil if old => "dcgm_gpu_utilization",
            Field::GpuUtil if renamed => "DCGM_FI_DEV_GPU_UTIL_RATIO",
            Field::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
            Field::FbUsed if old => "dcgm_fb_used",
            Field::FbUsed => "DCGM_FI_DEV_FB_USED",
            Field::FbFree if old => "dcgm_fb_free",
            Field::FbFree => "DCGM_FI_DEV_FB_FREE",
            Field::PowerUsage if old => "dcgm_power_usage",
            Field::PowerUsage => "DCGM_FI_DEV_POWER_USAGE",
            Field::DramActive | Field::GrEngineActive if no_profiling => return None,
            Field::DramActive if renamed => "DCGM_FI_PROF_DRAM_UTIL_RATIO",
            Field::DramActive => "DCGM_FI_PROF_DRAM_ACTIVE",
            Field::GrEngineActive if renamed => "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
            Field::GrEngineActive => "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            Field::FbReserved => match self {
                Self::V4_5_3 | Self::V4_8_3 => "DCGM_FI_DEV_FB_RESERVED",
                Self::V1Pod | Self::V2_1 | Self::V3_1 | Self::V3_3 | Self::V4_1 => return None,
            },
        })
    }

    /// Whether it collects on its own timer and serves cached text, so that a reading may
    /// be 2 × I old when scraped (`gpu_metrics::dcgm`, "Lines").
    pub(crate) const fn has_pipeline(self) -> bool {
        matches!(self, Self::V2_1 | Self::V3_1 | Self::V3_3)
    }

    /// Whether it can print one line per replica.
    pub(crate) const fn knows_sharing(self) -> bool {
        matches!(self, Self::V4_1 | Self::V4_5_3 | Self::V4_8_3)
    }

    /// Whether it splits GPU_UTIL and FB_USED by process in sharing mode.
    pub(crate) const fn splits_by_process(self) -> bool {
        matches!(self, Self::V4_5_3 | Self::V4_8_3)
    }

    /// Whether an idle GPU's labels are printed empty.
    pub(super) const fn has_empty_labels(self) -> bool {
        matches!(self, Self::V2_1 | Self::V3_1)
    }

    pub(super) const fn prints_nan(self) -> bool {
        !matches!(self, Self::V4_8_3)
    }

    pub(super) const fn driver(self) -> &'static str {
        match self {
            Self::V1Pod | Self::V2_1 | Self::V3_1 => "470.182.03",
            Self::V3_3 => "535.86.10",
            Self::V4_1 | Self::V4_5_3 => "570.133.20",
            Self::V4_8_3 => "580.95.05",
        }
    }
}

/// A field that the exporters print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// `DCGM_FI_DEV_MEM_COPY_UTIL`.
    MemCopyUtil,
    /// `DCGM_FI_PROF_DRAM_ACTIVE`.
    DramActive,
    /// `DCGM_FI_DEV_GPU_UTIL`.
    GpuUtil,
    /// `DCGM_FI_PROF_GR_ENGINE_ACTIVE`.
    GrEngineActive,
    /// `DCGM_FI_DEV_FB_USED`.
    FbUsed,
    /// `DCGM_FI_DEV_FB_FREE`.
    FbFree,
    /// `DCGM_FI_DEV_FB_RESERVED`.
    FbReserved,
    /// `DCGM_FI_DEV_POWER_USAGE`.
    PowerUsage,
}

impl Field {
    /// All fields, in the order of the built-in signals.
    pub(crate) const ALL: [Self; 8] = [
        Self::MemCopyUtil,
        Self::DramActive,
        Self::GpuUtil,
        Self::GrEngineActive,
        Self::FbUsed,
        Self::FbFree,
        Self::FbReserved,
        Self::PowerUsage,
    ];

    /// Whether it is an fp64 field.
    pub(super) const fn is_float(self) -> bool {
        matches!(
            self,
            Self::DramActive | Self::GrEngineActive | Self::PowerUsage
        )
    }

    /// Whether it belongs to whole cards only (`gpu_metrics::dcgm`, "MIG").
    pub(super) const fn is_whole_card(self) -> bool {
        matches!(self, Self::MemCopyUtil | Self::GpuUtil)
    }
}
