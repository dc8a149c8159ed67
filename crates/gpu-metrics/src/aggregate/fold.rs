//! Combines a group's readings over a window.

use super::super::policy::{DeviceValue, Formula, IdleValue, Measure, Over, Reducer};
use super::MeasureRequest;
use super::tally::{Answers, Tally, WindowTallies};
use apimachinery::time::Timestamp;

/// The running totals of a group's instants, in the order of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fold {
    /// The first instant at which a device answered.
    first: Option<i64>,
    /// The newest instant at which enough devices answered.
    pub(super) last: Option<i64>,
    /// Instants at which enough devices answered.
    defined: u32,
    /// Defined instants at which a device counted.
    counted: u32,
    /// Sums of the instants' values: of all defined ones, and of those with a device that
    /// counted.
    values: f64,
    counted_values: f64,
    /// The weighted sum of all readings that counted, and the sum of their weights.
    sum: f64,
    weight: f64,
    /// The newest sample used.
    pub(super) newest: Timestamp,
}

impl WindowTallies<'_> {
    /// Adds the instants up to `last` to the group's folds, one for each ask.
    pub(super) fn fold(&self, last: i64, folds: &mut [Fold]) {
        let next = self.tallies().skip(1).map(|(instant, _)| instant);
        let ends = next.chain(std::iter::once(last + 1));
        for ((from, tallies), end) in self.tallies().zip(ends) {
            if tallies.answers.valid == 0 {
                continue;
            }
            for (fold, tally) in folds.iter_mut().zip(&tallies.of_asks) {
                (from..end).for_each(|instant| fold.add(instant, &tallies.answers, tally));
            }
        }
    }
}

impl Fold {
    /// Adds an instant at which a device answered; if too few did, it counts as an
    /// instant without a value.
    fn add(&mut self, instant: i64, answers: &Answers, tally: &Tally) {
        if tally.is_none_held() {
            return;
        }
        self.first.get_or_insert(instant);
        let Some(value) = tally.number else {
            return;
        };
        self.defined += 1;
        self.last = Some(instant);
        self.newest = self.newest.max(answers.newest);
        self.values += value;
        if tally.counted > 0 {
            self.counted += 1;
            self.counted_values += value;
            self.sum += tally.sum;
            self.weight += tally.weight;
        }
    }

    /// Instants from the first at which a device answered to `last`.
    pub(super) fn instants_until(&self, last: i64) -> Option<i64> {
        self.first.map(|first| last - first + 1)
    }

    /// The value of the window.
    pub(super) fn value(&self, ask: &MeasureRequest, idle: IdleValue) -> Option<f64> {
        let over_active = matches!(
            ask.measure,
            Measure::Devices {
                over: Over::Active,
                ..
            }
        );
        if over_active && self.counted == 0 {
            return (idle == IdleValue::Zero).then_some(0.0);
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
