//! Generations of dcgm-exporter (`gpu_metrics::dcgm`, "Generations"), and the fields that they
//! print.

/// A generation of dcgm-exporter, named by its first release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// 2.0.13-2.1.1: empty labels when idle.
    V2_1,
    /// 3.3.5-3.4.1: no labels when idle.
    V3_3,
    /// 4.1.1-4.0.3: `pci_bus_id`, sharing mode.
    V4_1,
    /// 4.5.3-4.8.2: `FB_RESERVED`.
    V4_5_3,
    /// 4.6.0-4.8.3: `hostname`.
    V4_8_3,
}

impl Profile {
    /// All generations.
    pub(crate) const ALL: [Self; 5] = [
        Self::V2_1,
        Self::V3_3,
        Self::V4_1,
        Self::V4_5_3,
        Self::V4_8_3,
    ];

    /// Whether it prints a field.
    pub(crate) const fn prints(self, field: Field) -> bool {
        match field {
            Field::DramActive | Field::GrEngineActive => !matches!(self, Self::V2_1),
            Field::FbReserved => matches!(self, Self::V4_5_3 | Self::V4_8_3),
            _ => true,
        }
    }

    /// Whether it collects on its own timer and serves cached text, so that a reading may
    /// be 2 × I old when scraped (`gpu_metrics::dcgm`, "Lines").
    pub(crate) const fn has_pipeline(self) -> bool {
        matches!(self, Self::V2_1 | Self::V3_3)
    }

    pub(super) const fn driver(self) -> &'static str {
        match self {
            Self::V2_1 => "470.182.03",
            Self::V3_3 => "535.86.10",
            Self::V4_1 | Self::V4_5_3 => "570.133.20",
            Self::V4_8_3 => "580.95.05",
        }
    }
}

/// A field that the exporters print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    MemCopyUtil,
    DramActive,
    GpuUtil,
    GrEngineActive,
    FbUsed,
    FbFree,
    FbReserved,
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

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MemCopyUtil => "DCGM_FI_DEV_MEM_COPY_UTIL",
            Self::DramActive => "DCGM_FI_PROF_DRAM_ACTIVE",
            Self::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
            Self::GrEngineActive => "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            Self::FbUsed => "DCGM_FI_DEV_FB_USED",
            Self::FbFree => "DCGM_FI_DEV_FB_FREE",
            Self::FbReserved => "DCGM_FI_DEV_FB_RESERVED",
            Self::PowerUsage => "DCGM_FI_DEV_POWER_USAGE",
        }
    }

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
