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
use super::grid::RowId;
use super::layout::Layout;
use super::metric::Value;
use super::original;
use super::policy::{DeviceValue, Formula, Measure, MigWeight, Over, Policy, Reducer, Shared};
use super::time::{Timestamp, millis};

use fold::{Fold, Tally, pick};
use moment::Moment;

/// What is asked of a group.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// What to measure.
    pub measure: Measure,
    /// How readings become a number.
    pub formula: Formula,
    /// Over which window, milliseconds.
    pub window_ms: i64,
    /// Whether the group is a single pod.
    pub one_pod: bool,
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
    /// The values of each group, one for each of `asks`, where it has one that
    /// may be served: at least half of the instants since its first reading
    /// defined, at least two, and the newest sample younger than the freshness
    /// bound (`design.md` §4.1). Group by group, in the order of `asks`.
    ///
    /// The asks differ in their measure only, and are shown by the same device
    /// value ([`Lens`]). `sight` is what [`Evaluator::sight`] made for them,
    /// where many groups share it.
    pub fn values<'g>(
        &self,
        groups: impl Iterator<Item = &'g [RowId]> + Clone,
        asks: &[Ask],
        sight: Option<&Sight>,
    ) -> Vec<Option<Value>> {
        let Some(first) = asks.first() else {
            return Vec::new();
        };
        if first.measure == Measure::OriginalAverage {
            let value = self.original(first.window_ms);
            return groups.flat_map(|_| asks.iter().map(|_| value)).collect();
        }
        // A row's share of a device differs with the group that asks.
        let whole = !(first.one_pod && self.policy.shared == Shared::Split);
        let sight = sight.filter(|_| whole);
        let folds = groups
            .clone()
            .flat_map(|_| asks.iter().map(|_| Fold::default()));
        let mut folds: Vec<Fold> = folds.collect();
        let mut tallies = vec![(Tally::default(), Vec::new()); asks.len()];
        for instant in self.frame.instants(first.window_ms) {
            let moments = self.moments(instant);
            let seen = sight.map_or(&[][..], |sight| sight.at(instant));
            for (folds, members) in folds.chunks_mut(asks.len()).zip(groups.clone()) {
                self.tally((&moments, seen), members, asks, &mut tallies, folds);
            }
        }
        folds
            .chunks(asks.len())
            .zip(groups)
            .flat_map(|(folds, members)| {
                folds
                    .iter()
                    .zip(asks)
                    .map(move |(fold, ask)| (fold, members, ask))
            })
            .map(|(fold, members, ask)| self.finish(fold, members, ask))
            .collect()
    }

    /// Reads every row once for all groups that will ask.
    #[must_use]
    pub fn sight(&self, ask: &Ask) -> Sight {
        let instants = self.frame.instants(ask.window_ms);
        let first = *instants.start();
        let see = |instant| {
            let moments = self.moments(instant);
            let rows = self.layout.facts();
            rows.map(|facts| facts.map_or(Seen::NOTHING, |facts| moment::see(&moments, facts, ask)))
                .collect()
        };
        Sight {
            first,
            seen: instants.map(see).collect(),
        }
    }

    /// An instant, and those before it that `hold` looks back to.
    fn moments(&self, instant: i64) -> Vec<Moment<'a>> {
        let held = millis(self.policy.hold) / self.frame.step_ms();
        (0..=held)
            .map(|back| Moment::new(*self, instant - back))
            .collect()
    }

    fn finish(&self, fold: &Fold, members: &[RowId], ask: &Ask) -> Option<Value> {
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
        let mean = self.frame.original().mean(self.frame.now(), window_ms)?;
        let enough = mean.instants >= i64::from(self.policy.min_samples.max(1));
        let covered_ms = (mean.instants * original::STEP_MS).min(window_ms);
        (enough && mean.fresh_until > self.frame.now()).then(|| Value {
            value: mean.value,
            at: mean.at,
            fresh_until: mean.fresh_until,
            window_secs: u32::try_from(covered_ms / 1000).unwrap_or(u32::MAX),
        })
    }

    /// `plain`: the mean over devices of each device's mean over time.
    fn mean_of_device_means(&self, members: &[RowId], ask: &Ask) -> Option<f64> {
        let Measure::Devices { value, .. } = ask.measure else {
            return None;
        };
        let moments: Vec<Moment<'_>> = self
            .frame
            .instants(ask.window_ms)
            .map(|instant| Moment::new(*self, instant))
            .collect();
        let (mut sum, mut weight) = (0.0, 0.0);
        for rows in self.by_device(members, &ask.measure) {
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

    /// A group's rows, device by device; for power board by board, because
    /// every MIG instance repeats the power of its board (`dcgm.md` §1.6).
    fn by_device<'g>(
        &self,
        members: &'g [RowId],
        measure: &Measure,
    ) -> impl Iterator<Item = &'g [RowId]> {
        let layout = self.layout;
        let of_board = matches!(
            measure,
            Measure::Devices {
                value: DeviceValue::PowerUsage,
                ..
            }
        );
        members.chunk_by(move |a, b| match of_board {
            true => layout.board_of(*a) == layout.board_of(*b),
            false => layout.device_of(*a) == layout.device_of(*b),
        })
    }

    /// Adds the group's readings at one instant to its folds, one for each
    /// ask. `seen` holds the rows' readings, if they were read beforehand.
    fn tally(
        &self,
        (moments, seen): (&[Moment<'_>], &[Seen]),
        members: &[RowId],
        asks: &[Ask],
        tallies: &mut [(Tally, Vec<f64>)],
        folds: &mut [Fold],
    ) {
        let (Some(now), Some(first)) = (moments.first(), asks.first()) else {
            return;
        };
        for (tally, values) in tallies.iter_mut() {
            *tally = Tally::default();
            values.clear();
        }
        for rows in self.by_device(members, &first.measure) {
            let known = match rows {
                [row] => seen.get(row.0 as usize).copied(),
                _ => None,
            };
            let seen = known.or_else(|| moment::see_device(moments, rows, first));
            let Some(seen) = seen.filter(|seen| !seen.value.is_nan()) else {
                continue;
            };
            for ((fold, (tally, values)), ask) in folds.iter_mut().zip(tallies.iter_mut()).zip(asks)
            {
                fold.saw(&seen);
                tally.valid += 1;
                if seen.counts(&ask.measure) {
                    tally.counted += 1;
                    self.add(now, tally, ask, &seen);
                    if fold::needs_all(&ask.measure) {
                        values.push(seen.value);
                    }
                }
            }
        }
        for ((fold, (tally, values)), ask) in folds.iter_mut().zip(tallies).zip(asks) {
            if let Measure::Devices { reducer, over, .. } = ask.measure {
                tally.picked = pick(reducer, values);
                // Nobody holds a device: there is nothing to speak of.
                if over == Over::Held && tally.counted == 0 {
                    continue;
                }
            }
            fold.add(now.instant(), tally, &ask.measure);
        }
    }

    fn add(&self, now: &Moment<'_>, tally: &mut Tally, ask: &Ask, seen: &Seen) {
        let Measure::Devices { value, .. } = ask.measure else {
            tally.sum += 1.0;
            return;
        };
        let facts = || self.layout.fact(seen.row);
        if value == DeviceValue::MemoryUsedPercent {
            if let Some((used, whole)) =
                facts().and_then(|facts| now.framebuffer(facts.started, facts))
            {
                tally.sum += 100.0 * used.value;
                tally.whole += whole;
            }
            return;
        }
        let weight = match self.policy.mig_weight {
            MigWeight::Equal => 1.0,
            MigWeight::Slices => facts().map_or(1.0, |facts| facts.weight),
        };
        tally.sum += weight * seen.value;
        tally.weight += weight;
    }
}

/// A device's reading at an instant, judged.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// NaN where there is none.
    value: f64,
    at: Timestamp,
    lasting_ms: u32,
    /// The row that gave the reading.
    row: RowId,
    active: bool,
    held: bool,
}

impl Seen {
    const NOTHING: Self = Self {
        value: f64::NAN,
        at: Timestamp::MIN,
        lasting_ms: 0,
        row: RowId(u32::MAX),
        active: false,
        held: false,
    };

    /// Whether the device counts for a measure. One whose utilisation is
    /// unknown is neither active nor idle.
    fn counts(&self, measure: &Measure) -> bool {
        match measure {
            Measure::Devices { over, .. } => match over {
                Over::Active => self.active,
                Over::Held => self.held,
                Over::All => true,
            },
            Measure::HeldCount => self.held,
            Measure::ActiveCount => self.held && self.active,
            Measure::IdleCount => self.held && !self.active,
            Measure::OriginalAverage => false,
        }
    }
}

/// All rows' readings of a measure, instant by instant.
#[derive(Clone, Debug)]
pub struct Sight {
    first: i64,
    seen: Vec<Vec<Seen>>,
}

impl Sight {
    fn at(&self, instant: i64) -> &[Seen] {
        let position = usize::try_from(instant - self.first).ok();
        position
            .and_then(|position| self.seen.get(position))
            .map_or(&[], Vec::as_slice)
    }
}

/// What shows a device for a measure: the first of these that has a reading.
/// Measures with the same lens read the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lens([Option<DeviceValue>; 3]);

impl Lens {
    /// The lens of a measure.
    #[must_use]
    pub fn of(measure: &Measure) -> Self {
        let memory = Some(DeviceValue::MemoryUtilization);
        Self(match measure {
            Measure::Devices { value, .. } => [Some(*value), None, None],
            Measure::HeldCount => [
                memory,
                Some(DeviceValue::GpuUtilization),
                Some(DeviceValue::MemoryUsed),
            ],
            Measure::ActiveCount | Measure::IdleCount => [memory, None, None],
            Measure::OriginalAverage => [None; 3],
        })
    }
}
