//! How readings become values: measures, reducers, settings (docs/numbers.md).

use std::time::Duration;

use apimachinery::time::millis;

use super::signal::{SignalId, Unit};

/// A number that each device has at an instant, from one or more signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceValue {
    /// Percent: memory copy utilisation; on a MIG instance 100 × DRAM active.
    MemoryUtilization,
    /// Percent: GPU utilisation; on a MIG instance 100 × graphics engine
    /// active.
    GpuUtilization,
    /// MiB of framebuffer in use.
    MemoryUsed,
    /// Percent of framebuffer: used ÷ (used + free + reserved). Over several
    /// devices the ratio of the sums, not the mean of the ratios.
    MemoryUsedPercent,
    /// Watts.
    PowerUsage,
    /// One signal as it is (ratios as percent).
    Signal(SignalId),
}

impl DeviceValue {
    /// The signal that it is read from, and the one that MIG instances have instead.
    #[must_use]
    pub const fn signals(self) -> (SignalId, Option<SignalId>) {
        match self {
            Self::MemoryUtilization => (SignalId::MEM_COPY_UTIL, Some(SignalId::DRAM_ACTIVE)),
            Self::GpuUtilization => (SignalId::GPU_UTIL, Some(SignalId::GR_ENGINE_ACTIVE)),
            Self::MemoryUsed | Self::MemoryUsedPercent => (SignalId::FB_USED, None),
            Self::PowerUsage => (SignalId::POWER_USAGE, None),
            Self::Signal(id) => (id, None),
        }
    }

    /// Its unit.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::MemoryUsedPercent => Unit::Percent,
            _ => self.signals().0.unit(),
        }
    }
}

/// How the devices of a group become one number at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// Arithmetic mean.
    Mean,
    Sum,
    /// Largest.
    Max,
}

/// The devices of a group that a metric covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Those with a value above 0; of counts, with a memory utilisation above 0.
    Active,
    /// All that answer.
    All,
}

/// The quantity that a metric measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// A reducer over a device value.
    Devices {
        value: DeviceValue,
        reducer: Reducer,
        /// The devices covered.
        over: Over,
    },
    /// How many devices are held.
    HeldCount,
    /// How many held devices are active.
    ActiveCount,
    /// How many held devices answer and are not active.
    IdleCount,
    /// The original exporter's number (docs/numbers.md, "The original's number").
    OriginalAverage,
}

/// A metric: a name and what it measures.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSpec {
    /// Its name: `gpu_memory_utilization`.
    pub name: String,
    pub measure: Measure,
}

/// All settings that determine how readings become values. `None`: detected from the
/// data.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The default window.
    pub window: Option<Duration>,
    /// The longest window that an HPA may request. It bounds memory.
    pub max_window: Duration,
    /// The time between instants.
    pub step: Duration,
    /// The least F: how long a reading is valid.
    pub freshness: Duration,
    pub scrape_interval: Option<Duration>,
    /// Whether percent fields arrive as 0–1 (`true`) or 0–100 (`false`). `None`: as 0–100, and
    /// a source whose values contradict this is unknown.
    pub percent_as_ratio: Option<bool>,
}

/// How many scrape intervals a sample is valid for.
const INTERVALS: i64 = 3;

impl Policy {
    /// F by S, both in milliseconds.
    pub(crate) fn fresh_ms(&self, scrape_ms: i64) -> i64 {
        (INTERVALS * scrape_ms).max(millis(self.freshness))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            window: None,
            max_window: Duration::from_secs(300),
            step: Duration::from_secs(5),
            freshness: Duration::from_secs(30),
            scrape_interval: None,
            percent_as_ratio: None,
        }
    }
}
