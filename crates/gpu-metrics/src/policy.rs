//! How readings become values: formulas, predicates, reducers.
//!
//! Names and definitions: docs/numbers.md, "Formulas".

use std::time::Duration;

use super::signal::SignalId;

/// How the readings of a window become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Formula {
    /// Mean, over the instants where it is defined, of the instantaneous
    /// mean over active devices (0 where devices answer and none is active).
    #[default]
    MeanOfInstants,
    /// Mean over devices of each one's mean over time, idle ones included:
    /// `avg(avg_over_time(X[W]))`.
    Plain,
}

impl Formula {
    pub const ALL: [Self; 2] = [Self::MeanOfInstants, Self::Plain];

    /// The name in configuration and selectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MeanOfInstants => "mean-of-instants",
            Self::Plain => "plain",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|formula| formula.name() == name)
    }
}

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

/// One condition of an activity predicate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ActivityCondition {
    /// The device's value is strictly above the threshold. Ratio signals
    /// (`dram_active`, `gr_engine_active`) compare in their own unit, 0–1.
    Above(DeviceValue, f64),
    /// The device is held by a pod.
    Allocated,
}

/// Which devices count as active.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Activity {
    /// The metric's own value is above 0; for memory, power and counts, memory utilisation is.
    #[default]
    OwnValueAboveZero,
    /// At least one condition holds.
    Any(Vec<ActivityCondition>),
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
    Active,
    /// Those held by a pod.
    Held,
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

/// Weight of a MIG instance in a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigWeight {
    /// Each instance counts as one device.
    #[default]
    Equal,
    /// By the number of compute slices, the leading number of its profile.
    Slices,
}

/// The value of one of several holders of a shared device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shared {
    #[default]
    DeviceValue,
    /// The device's value divided by the number of holders: an estimate.
    Split,
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
    /// The default formula.
    pub formula: Formula,
    /// Which devices are active.
    pub activity: Activity,
    /// How long a device stays active after its last active reading.
    pub hold: Duration,
    /// The least share of a group's expected devices that must answer for a sum or a
    /// count, both by number and by their last values.
    pub min_devices: f64,
    /// The least F: how long a reading is valid.
    pub freshness: Duration,
    pub scrape_interval: Option<Duration>,
    /// Whether percent fields arrive as 0–1 (`true`) or 0–100 (`false`). `None`: as 0–100, and
    /// a source whose values contradict this is unknown.
    pub percent_as_ratio: Option<bool>,
    /// Weight of MIG instances.
    pub mig_weight: MigWeight,
    /// The value of a holder of a shared device.
    pub shared: Shared,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            window: None,
            max_window: Duration::from_secs(300),
            step: Duration::from_secs(5),
            formula: Formula::default(),
            activity: Activity::default(),
            hold: Duration::ZERO,
            min_devices: 0.9,
            freshness: Duration::from_secs(30),
            scrape_interval: None,
            percent_as_ratio: None,
            mig_weight: MigWeight::default(),
            shared: Shared::default(),
        }
    }
}
