//! Signals: the physical quantities that DCGM series report.

use crate::dcgm::fields::TABLE;

/// Index of a signal in the table of polled signals. The built-in ones have fixed
/// numbers; configured fields follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalId(pub u16);

impl SignalId {
    /// Share of time the device memory was read or written, percent
    /// (`DCGM_FI_DEV_MEM_COPY_UTIL`, id 204; no series on MIG).
    pub const MEM_COPY_UTIL: Self = Self(0);
    /// DRAM interface active, ratio (`DCGM_FI_PROF_DRAM_ACTIVE`, id 1005).
    pub const DRAM_ACTIVE: Self = Self(1);
    /// Share of time a kernel ran, percent (`DCGM_FI_DEV_GPU_UTIL`, id 203;
    /// no series on MIG).
    pub const GPU_UTIL: Self = Self(2);
    /// Graphics engine active, ratio (`DCGM_FI_PROF_GR_ENGINE_ACTIVE`, 1001).
    pub const GR_ENGINE_ACTIVE: Self = Self(3);
    /// Framebuffer used, MiB (`DCGM_FI_DEV_FB_USED`, id 252).
    pub const FB_USED: Self = Self(4);
    /// Framebuffer free, MiB (`DCGM_FI_DEV_FB_FREE`, id 251).
    pub const FB_FREE: Self = Self(5);
    /// Framebuffer reserved, MiB (`DCGM_FI_DEV_FB_RESERVED`, id 253).
    pub const FB_RESERVED: Self = Self(6);
    /// Power draw, watts (`DCGM_FI_DEV_POWER_USAGE`, id 155).
    pub const POWER_USAGE: Self = Self(7);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its unit. Configured fields have [`Unit::Plain`] here, whatever unit is configured.
    pub(crate) fn unit(self) -> Unit {
        let known = TABLE.get(self.index());
        known.map_or(Unit::Plain, |(unit, ..)| *unit)
    }
}

/// The unit of a signal, and its valid raw values. Other values are no readings
/// (docs/numbers.md, "Readings").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Valid iff 0 ≤ v ≤ 100. The unit of a job with values between 0 and 1 is unknown.
    Percent,
    /// Valid iff 0 ≤ v ≤ 1.2, then clamped to 1 and served as percent.
    Ratio,
    /// Mebibytes, valid iff 0 ≤ v < 10^8 (all sentinels lie above).
    Mebibytes,
    /// Watts, valid iff 0 ≤ v < 10^6.
    Watts,
    /// Any finite value below the smallest sentinel (2^31 − 16) in magnitude.
    Plain,
}

/// A signal and all its series names.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalSpec {
    pub id: SignalId,
    /// Short name used in configuration and logs: `memory_copy_utilization`.
    pub name: String,
    /// Series names to accept, compared case-insensitively.
    pub wire_names: Vec<String>,
    /// Its unit, which determines its validity test.
    pub unit: Unit,
}
