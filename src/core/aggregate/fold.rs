//! What remains of a group's readings: an instant's tally, a window's fold.

use super::super::policy::{DeviceValue, Formula, Idle, Measure, Over, Reducer};
use super::super::time::Timestamp;
use super::{Ask, Seen};

/// A group's readings at one instant, boiled down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    /// Devices with a valid reading.
    valid: u32,
    /// Those among them that count for the metric.
    pub(super) counted: u32,
    /// Their weights.
    pub(super) weight: f64,
    /// Their values by weight.
    pub(super) sum: f64,
    /// Second sum: the denominator of a ratio of sums.
    pub(super) whole: f64,
    /// A reducer's result that is no sum.
    pub(super) picked: f64,
    /// Devices that were expected and did not answer.
    pub(super) missing: u32,
    /// What they would add by their last readings.
    pub(super) missing_sum: f64,
    /// The newest sample.
    newest: Timestamp,
    /// Until when the last of the samples is fresh.
    fresh_until: Timestamp,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            valid: 0,
            counted: 0,
            weight: 0.0,
            sum: 0.0,
            whole: 0.0,
            picked: 0.0,
            missing: 0,
            missing_sum: 0.0,
            newest: Timestamp::MIN,
            fresh_until: Timestamp::MIN,
        }
    }
}

/// Of a mean, a maximum or a quantile half of the devices may be missing.
const SHARE_OF_MEANS: f64 = 0.5;

/// Rounding must not decide between nine of ten and less.
const ROUNDING: f64 = 1e-9;

impl Tally {
    /// A device has a reading; `heard` is its newest, which may lie after the
    /// window.
    pub(super) fn saw(&mut self, seen: &Seen, heard: Timestamp) {
        self.valid += 1;
        self.newest = self.newest.max(seen.at);
        let until = heard.millis().saturating_add(i64::from(seen.lasting_ms));
        self.fresh_until = self.fresh_until.max(Timestamp::from_millis(until));
    }

    /// Whether so many devices answered that the instant may count: half an
    /// answer is no answer.
    pub(super) fn is_defined(&self, measure: &Measure, min_devices: f64) -> bool {
        let is_sum = match measure {
            // What is held is known without an answer.
            Measure::HeldCount => return true,
            Measure::ActiveCount | Measure::IdleCount => true,
            Measure::Devices { reducer, .. } => *reducer == Reducer::Sum,
            Measure::OriginalAverage => false,
        };
        let share = if is_sum {
            1.0 - min_devices
        } else {
            SHARE_OF_MEANS
        };
        let missing = f64::from(self.missing);
        let few = missing <= share * (f64::from(self.valid) + missing) + ROUNDING;
        let little = self.missing_sum <= share * (self.sum + self.missing_sum) + ROUNDING;
        few && (little || !is_sum)
    }
}

/// A group's instants, added up in the order of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// The first instant at which a device answered.
    first: Option<i64>,
    /// Instants at which enough devices answered.
    pub(super) defined: u32,
    /// Different readings: one that is held over several instants is one.
    pub(super) readings: u32,
    /// Those among the defined at which a device counted.
    counted: u32,
    /// The instants' values: of all defined ones, of those that counted.
    values: f64,
    counted_values: f64,
    /// All readings that counted, and their weights.
    sum: f64,
    weight: f64,
    /// The newest sample used.
    pub(super) newest: Timestamp,
    /// Until when the newest defined instant is fresh.
    pub(super) fresh_until: Timestamp,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            first: None,
            defined: 0,
            readings: 0,
            counted: 0,
            values: 0.0,
            counted_values: 0.0,
            sum: 0.0,
            weight: 0.0,
            newest: Timestamp::MIN,
            fresh_until: Timestamp::MIN,
        }
    }
}

impl Fold {
    /// Adds an instant. One without valid reading adds nothing; one at which
    /// too few answered counts as an instant without a value.
    pub(super) fn add(&mut self, instant: i64, tally: &Tally, measure: &Measure, defined: bool) {
        if tally.valid == 0 {
            return;
        }
        self.first.get_or_insert(instant);
        if !defined {
            return;
        }
        let value = tally.instant_value(measure);
        self.defined += 1;
        self.readings += u32::from(tally.newest > self.newest);
        self.newest = self.newest.max(tally.newest);
        self.fresh_until = tally.fresh_until;
        self.values += value;
        if tally.counted > 0 {
            self.counted += 1;
            self.counted_values += value;
            self.sum += tally.sum;
            self.weight += tally.weight;
        }
    }

    /// Instants from the first defined one to `last`.
    pub(super) fn instants_until(&self, last: i64) -> Option<i64> {
        self.first.map(|first| last - first + 1)
    }

    /// One number out of the instants.
    pub(super) fn value(&self, ask: &Ask, idle: Idle) -> Option<f64> {
        let over_active = matches!(
            ask.measure,
            Measure::Devices {
                over: Over::Active,
                ..
            }
        );
        if over_active && self.counted == 0 {
            return (idle == Idle::Zero).then_some(0.0);
        }
        match ask.formula {
            Formula::SampleWeighted if is_mean(&ask.measure) => {
                (self.weight > 0.0).then(|| self.sum / self.weight)
            }
            Formula::ActiveInstants => {
                (self.counted > 0).then(|| self.counted_values / f64::from(self.counted))
            }
            Formula::MeanOfInstants | Formula::SampleWeighted | Formula::Plain => {
                (self.defined > 0).then(|| self.values / f64::from(self.defined))
            }
        }
    }
}

/// Whether a measure is a mean of readings (and no ratio of sums).
fn is_mean(measure: &Measure) -> bool {
    matches!(measure, Measure::Devices { reducer: Reducer::Mean, value, .. }
        if *value != DeviceValue::MemoryUsedPercent)
}

impl Tally {
    /// The group's number at one instant.
    fn instant_value(&self, measure: &Measure) -> f64 {
        let Measure::Devices { value, reducer, .. } = measure else {
            let missing = f64::from(self.missing) * f64::from(*measure == Measure::HeldCount);
            return self.sum + missing;
        };
        if self.counted == 0 {
            return 0.0;
        }
        match reducer {
            Reducer::Mean if *value == DeviceValue::MemoryUsedPercent => {
                if self.whole > 0.0 {
                    self.sum / self.whole
                } else {
                    0.0
                }
            }
            Reducer::Mean if self.weight > 0.0 => self.sum / self.weight,
            Reducer::Mean => 0.0,
            Reducer::Sum => self.sum,
            Reducer::Max | Reducer::Min | Reducer::Quantile(_) => self.picked,
        }
    }
}

/// Whether a measure's reducer needs all values at once.
pub(super) fn needs_all(measure: &Measure) -> bool {
    matches!(
        measure,
        Measure::Devices {
            reducer: Reducer::Max | Reducer::Min | Reducer::Quantile(_),
            ..
        }
    )
}

/// The reducers that need all values at once.
pub(super) fn pick(reducer: Reducer, values: &mut [f64]) -> f64 {
    match reducer {
        Reducer::Mean | Reducer::Sum => 0.0,
        Reducer::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reducer::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Reducer::Quantile(q) => quantile(q, values),
    }
}

/// PromQL's `quantile`: linear between the two nearest ranks
/// (`prometheus/promql/quantile.go`).
fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_unstable_by(f64::total_cmp);
    let rank = q.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    let weight = rank - rank.floor();
    values[low] * (1.0 - weight) + values[high] * weight
}
