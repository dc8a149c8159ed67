//! The formulas: readings of a group of devices over a window into one value.
//!
//! Definitions: `dcgm.md` §4.3; the PromQL that gives the same numbers: §4.4.
//!
//! Many groups are evaluated instant by instant, not group by group: the
//! columns of one instant stay in the processor's cache while all groups read
//! them.

mod fold;
mod moment;

use super::frame::Frame;
use super::grid::{Reading, RowId};
use super::layout::{Layout, RowFacts, Standing};
use super::metric::Value;
use super::policy::{DeviceValue, Formula, Measure, Over, Policy, Reducer};
use super::time::millis;

use fold::{Fold, Tally, pick};
use moment::Moment;

/// What is asked of a group.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// What to measure.
    pub measure: Measure,
    /// How readings become a number.
    pub formula: Formula,
    /// Over which window, milliseconds.
    pub window_ms: i64,
    /// Whether the group is a single pod.
    pub one_pod: bool,
    /// Which rows to take; `None`: all.
    pub rows: Option<&'a dyn Fn(&RowFacts) -> bool>,
}

impl std::fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask")
            .field("measure", &self.measure)
            .field("formula", &self.formula)
            .field("window_ms", &self.window_ms)
            .finish_non_exhaustive()
    }
}

/// Evaluates measures over a frame.
#[derive(Clone, Copy, Debug)]
pub struct Evaluator<'a> {
    /// The readings.
    pub frame: &'a Frame,
    /// Whose they are.
    pub layout: &'a Layout,
    /// How to judge them.
    pub policy: &'a Policy,
}

impl<'a> Evaluator<'a> {
    /// The value of each group, where it has one that may be served: at least
    /// half of the instants since its first reading defined, at least two, and
    /// the newest sample younger than the freshness bound (`design.md` §4.1).
    pub fn values<'g>(
        &self,
        groups: impl Iterator<Item = &'g [RowId]> + Clone,
        ask: &Ask<'_>,
    ) -> Vec<Option<Value>> {
        if ask.measure == Measure::OriginalAverage {
            let value = self.original(ask.window_ms);
            return groups.map(|_| value).collect();
        }
        let mut folds: Vec<Fold> = groups.clone().map(|_| Fold::default()).collect();
        let mut values = Vec::new();
        for instant in self.frame.instants(ask.window_ms) {
            let moments = self.moments(instant);
            for (fold, members) in folds.iter_mut().zip(groups.clone()) {
                self.tally(&moments, members, ask, &mut values, fold);
            }
        }
        folds
            .iter()
            .zip(groups)
            .map(|(fold, members)| self.finish(fold, members, ask))
            .collect()
    }

    /// The value of one group.
    #[must_use]
    pub fn value(&self, members: &[RowId], ask: &Ask<'_>) -> Option<Value> {
        self.values(std::iter::once(members), ask).pop().flatten()
    }

    /// An instant, and those before it that `hold` looks back to.
    fn moments(&self, instant: i64) -> Vec<Moment<'a>> {
        let held = millis(self.policy.hold) / self.frame.step_ms();
        (0..=held)
            .map(|back| Moment::new(*self, instant - back))
            .collect()
    }

    fn finish(&self, fold: &Fold, members: &[RowId], ask: &Ask<'_>) -> Option<Value> {
        let last = *self.frame.instants(ask.window_ms).end();
        let instants = fold.instants_until(last)?;
        let enough = f64::from(fold.defined) >= self.policy.min_coverage * instants as f64
            && fold.defined >= self.policy.min_samples.max(1);
        if !enough || fold.fresh_until <= self.frame.now() {
            return None;
        }
        let covered_ms = (instants * self.frame.step_ms()).min(ask.window_ms);
        let plain_mean = ask.formula == Formula::Plain
            && matches!(
                ask.measure,
                Measure::Devices {
                    reducer: Reducer::Mean,
                    ..
                }
            );
        let value = if plain_mean {
            self.mean_of_device_means(members, ask)?
        } else {
            fold.value(ask, self.policy.idle)?
        };
        Some(Value {
            value,
            at: fold.newest,
            fresh_until: fold.fresh_until,
            window_secs: u32::try_from((covered_ms + 500) / 1000).unwrap_or(u32::MAX),
        })
    }

    fn original(&self, window_ms: i64) -> Option<Value> {
        let original = self.frame.original();
        let (at, fresh_until) = original.freshness()?;
        let value = original.mean(self.frame.now(), window_ms)?;
        (fresh_until > self.frame.now()).then(|| Value {
            value,
            at,
            fresh_until,
            window_secs: u32::try_from(window_ms / 1000).unwrap_or(u32::MAX),
        })
    }

    /// `plain`: the mean over devices of each device's mean over time.
    fn mean_of_device_means(&self, members: &[RowId], ask: &Ask<'_>) -> Option<f64> {
        let Measure::Devices { value, .. } = ask.measure else {
            return None;
        };
        let moments: Vec<Moment<'_>> = self
            .frame
            .instants(ask.window_ms)
            .map(|instant| Moment::new(*self, instant))
            .collect();
        let (mut sum, mut weight) = (0.0, 0.0);
        for rows in self.by_device(members) {
            let (mut device_sum, mut instants) = (0.0, 0_u32);
            for moment in &moments {
                if let Some((reading, _)) = moment.best(rows, value, ask) {
                    device_sum += reading.value;
                    instants += 1;
                }
            }
            if instants > 0 {
                let facts = rows.first().and_then(|row| self.layout.fact(*row));
                let share = facts.map_or(1.0, |facts| facts.weight);
                sum += share * (device_sum / f64::from(instants));
                weight += share;
            }
        }
        (weight > 0.0).then(|| sum / weight)
    }

    /// A group's rows, device by device.
    fn by_device<'g>(&self, members: &'g [RowId]) -> impl Iterator<Item = &'g [RowId]> {
        let layout = self.layout;
        let device = move |row: &RowId| layout.fact(*row).map(|facts| facts.device);
        members.chunk_by(move |a, b| device(a) == device(b))
    }

    /// Adds the group's readings at one instant to its fold.
    fn tally(
        &self,
        moments: &[Moment<'_>],
        members: &[RowId],
        ask: &Ask<'_>,
        values: &mut Vec<f64>,
        fold: &mut Fold,
    ) {
        let Some(now) = moments.first() else { return };
        let mut tally = Tally::default();
        values.clear();
        for rows in self.by_device(members) {
            let Measure::Devices { value, over, .. } = ask.measure else {
                count(moments, rows, ask, &mut tally, fold);
                continue;
            };
            let Some((reading, facts)) = now.best(rows, value, ask) else {
                continue;
            };
            fold.saw(reading, facts);
            tally.valid += 1;
            let counts = match over {
                Over::Active => moment::is_active(moments, rows, value, reading, facts),
                Over::Held => facts.standing == Standing::Held,
                Over::All => true,
            };
            if counts {
                tally.counted += 1;
                add(now, &mut tally, value, reading, facts);
                values.push(reading.value);
            }
        }
        if let Measure::Devices { reducer, over, .. } = ask.measure {
            tally.picked = pick(reducer, values);
            // Nobody holds a device: there is nothing to speak of.
            if over == Over::Held && tally.counted == 0 {
                return;
            }
        }
        fold.add(now.instant(), &tally, &ask.measure);
    }
}

fn add(
    now: &Moment<'_>,
    tally: &mut Tally,
    value: DeviceValue,
    reading: Reading,
    facts: &RowFacts,
) {
    if value == DeviceValue::MemoryUsedPercent {
        if let Some((used, whole)) = now.framebuffer(facts) {
            tally.sum += 100.0 * used.value;
            tally.whole += whole;
        }
        return;
    }
    tally.sum += facts.weight * reading.value;
    tally.weight += facts.weight;
}

/// Counts one device: held, of these active, of these answering and not
/// active. A device whose utilisation is unknown is neither active nor idle.
fn count(
    moments: &[Moment<'_>],
    rows: &[RowId],
    ask: &Ask<'_>,
    tally: &mut Tally,
    fold: &mut Fold,
) {
    const SHOWN_BY: [DeviceValue; 3] = [
        DeviceValue::MemoryUtilization,
        DeviceValue::GpuUtilization,
        DeviceValue::MemoryUsed,
    ];
    let Some(now) = moments.first() else { return };
    let shown_by = match ask.measure {
        Measure::HeldCount => &SHOWN_BY[..],
        _ => &SHOWN_BY[..1],
    };
    let shown = shown_by
        .iter()
        .find_map(|value| now.best(rows, *value, ask));
    let Some((reading, facts)) = shown else {
        return;
    };
    fold.saw(reading, facts);
    tally.valid += 1;
    if facts.standing != Standing::Held {
        return;
    }
    let is_active = || moment::is_active(moments, rows, SHOWN_BY[0], reading, facts);
    let counts = match ask.measure {
        Measure::ActiveCount => is_active(),
        Measure::IdleCount => !is_active(),
        _ => true,
    };
    if counts {
        tally.counted += 1;
        tally.sum += 1.0;
    }
}
