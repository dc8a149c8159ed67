//! The fields that the exporters print.

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

    /// Whether it is an fp64 field, printed with six decimals.
    pub(super) const fn is_float(self) -> bool {
        matches!(
            self,
            Self::DramActive | Self::GrEngineActive | Self::PowerUsage
        )
    }

    /// Whether it belongs to whole cards only (docs/exporter.md, "MIG").
    pub(super) const fn is_whole_card(self) -> bool {
        matches!(self, Self::MemCopyUtil | Self::GpuUtil)
    }
}
