//! The formulas: the readings of a group of devices over a window become one value.
//!
//! Definitions, and the PromQL that computes the same values: `docs/numbers.md`.
//!
//! A group's readings are added up only at instants at which a reading of the group may
//! have changed ([`Changes`]).

mod absence;
mod active;
mod changes;
mod fold;
mod instant_reader;
mod missing;
mod reasons;
mod row_target;
mod span;
mod tally;

use super::frame::Frame;
use super::grid::RowId;
use super::layout::{Layout, Object};
use super::metric::Value;
use super::policy::{DeviceValue, Formula, Measure, Over, Policy, Shared};
use super::signal::SignalId;
use apimachinery::time::Timestamp;

pub use absence::{Absence, Missing};
pub use changes::Changes;
use fold::Fold;
use instant_reader::InstantReader;
pub use reasons::{DeviceReasons, IdleSince, Instant, Outcome, ReadingOutcome, Reasons};
pub use row_target::RowTarget;
pub use span::{Span, window_ms};
use tally::WindowTallies;

/// A measure requested for a group.
#[derive(Clone, Copy, Debug)]
pub struct MeasureRequest {
    pub measure: Measure,
    /// How readings become a number.
    pub formula: Formula,
}

/// Evaluates measures over a frame.
#[derive(Clone, Copy, Debug)]
pub struct Evaluator<'a> {
    /// The readings.
    pub frame: &'a Frame,
    /// The owners of the rows.
    pub layout: &'a Layout,
    /// How readings become values.
    pub policy: &'a Policy,
    /// The target whose intervals apply to each row, by row number.
    pub targets: &'a [RowTarget],
    /// When readings of the rows change.
    pub changes: &'a Changes,
}

/// A group of devices that are evaluated together, with the instants.
pub type Spanned<'g> = (&'g Object, Option<Span>);

impl<'a> Evaluator<'a> {
    /// The values of each group, one for each of `asks`; `None` unless one of the last
    /// instants of the window is defined. Group by group, in the order of `asks`.
    ///
    /// The asks differ only in their measure, and have the same [`MeasureInputs`].
    /// `row_readings` is the result of `Evaluator::row_readings` for them, if many groups
    /// share it.
    pub(crate) fn values(
        &self,
        groups: &[Spanned<'_>],
        asks: &[MeasureRequest],
        row_readings: Option<&RowReadings>,
    ) -> Vec<Option<Value>> {
        // A row's share of a device depends on the group.
        let is_pods = groups.iter().any(|(group, _)| group.one_pod);
        let row_readings =
            row_readings.filter(|_| !(is_pods && self.policy.shared == Shared::Split));
        let mut folds = vec![Fold::default(); asks.len()];
        let mut window = WindowTallies::of(asks);
        let mut values = Vec::with_capacity(groups.len() * asks.len());
        for (group, span) in groups {
            folds.fill(Fold::default());
            if let Some(span) = span {
                self.fill(&mut window, row_readings, (group, span));
                window.fold(span.last, &mut folds);
            }
            let finished = folds.iter().zip(asks);
            values.extend(finished.map(|(fold, ask)| self.finish(fold, (group, *span), ask)));
        }
        values
    }

    /// Reads every row once for all groups, from instant `first` to `last`.
    pub(crate) fn row_readings(
        &self,
        ask: &MeasureRequest,
        (first, last): (i64, i64),
    ) -> RowReadings {
        let mut row_readings = RowReadings::default();
        let mut instants = Vec::new();
        for facts in self.layout.facts() {
            row_readings.starts.push(row_readings.readings.len());
            let Some(facts) = facts else { continue };
            let row = [facts.id];
            self.changes.instants(&row, (first, last), &mut instants);
            for instant in &instants {
                let seen = InstantReader::new(*self, *instant).read(&row, &ask.measure, false);
                row_readings.readings.push((*instant, seen));
            }
        }
        row_readings.starts.push(row_readings.readings.len());
        row_readings
    }

    fn finish(
        &self,
        fold: &Fold,
        (group, span): Spanned<'_>,
        ask: &MeasureRequest,
    ) -> Option<Value> {
        let span = &span?;
        let instants = fold.instants_until(span.last)?;
        let fresh_until = span.served_until(fold.last?, self.frame.step_ms());
        if fresh_until <= self.frame.now() {
            return None;
        }
        let covered_ms = (instants * self.frame.step_ms()).min(span.window_ms);
        let value = match ask.formula {
            Formula::Plain => self.mean_of_device_means(group, span, &ask.measure)?,
            _ => fold.value(ask, self.policy.idle)?,
        };
        Some(Value {
            value,
            at: fold.newest,
            fresh_until,
            window_secs: u32::try_from((covered_ms + 500) / 1000).unwrap_or(u32::MAX),
        })
    }

    /// `plain`: the mean over devices of each device's mean over time.
    fn mean_of_device_means(&self, group: &Object, span: &Span, measure: &Measure) -> Option<f64> {
        let readers: Vec<InstantReader<'_>> = (span.first..=span.last)
            .map(|instant| InstantReader::new(*self, instant))
            .collect();
        let (mut sum, mut weight) = (0.0, 0.0);
        for rows in self.by_device(&group.members, measure) {
            let (mut device_sum, mut instants) = (0.0, 0_u32);
            for reader in &readers {
                let seen = reader.read(rows, measure, group.one_pod);
                if !seen.value.is_nan() && !seen.is_outside(group) {
                    device_sum += seen.value;
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

    /// A group's rows by device; for power by board, because every MIG instance repeats
    /// the power of its board (NVIDIA/DCGM, `dcgmlib/src/dcgm_fields.cpp`).
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
            true => layout.rank(*a).board == layout.rank(*b).board,
            false => layout.rank(*a).device == layout.rank(*b).device,
        })
    }
}

/// A device's reading at an instant, with the facts that decide whether it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceReading {
    /// NaN without a reading.
    pub value: f64,
    /// The time of its sample.
    pub at: Timestamp,
    /// Its weight in a mean; for memory in percent, the whole memory in MiB.
    pub weight: f64,
    /// Whether it is active; `None`: the reading that decides this is missing.
    pub active: Option<bool>,
    /// Whether a pod held the device at that time.
    pub held: bool,
    /// Whether the sample is from before its pod started: it belongs to an earlier pod of
    /// the same name.
    of_predecessor: bool,
    /// Whether the sample is from after its pod ended.
    after_end: bool,
}

impl DeviceReading {
    const NOTHING: Self = Self {
        value: f64::NAN,
        at: Timestamp::MIN,
        weight: 0.0,
        active: Some(false),
        held: false,
        of_predecessor: false,
        after_end: false,
    };

    /// Whether it is from before the group or the pod existed, or from after the pod
    /// ended.
    fn is_outside(&self, group: &Object) -> bool {
        self.at < group.created
            || (group.one_pod && self.of_predecessor)
            || (group.of_pods && self.after_end)
    }
}

/// All rows' readings of a measure.
#[derive(Clone, Debug, Default)]
pub struct RowReadings {
    /// The index of the first reading of each row, and the number of all readings.
    starts: Vec<usize>,
    /// Row by row, each with the instant from which it counts.
    readings: Vec<(i64, DeviceReading)>,
}

impl RowReadings {
    /// The readings of a row, in the order of time.
    #[inline]
    fn of_row(&self, row: RowId) -> &[(i64, DeviceReading)] {
        let row = row.0 as usize;
        let ends = self.starts.get(row).zip(self.starts.get(row + 1));
        let readings = ends.and_then(|(start, end)| self.readings.get(*start..*end));
        readings.unwrap_or(&[])
    }
}

/// The device values that a measure reads, of which the first with a reading counts, and
/// whether the measure depends on which devices are active. Measures with the same inputs
/// read the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureInputs {
    shown_by: [Option<DeviceValue>; 3],
    of_active: bool,
}

impl MeasureInputs {
    pub(crate) fn of(measure: &Measure) -> Self {
        let memory = Some(DeviceValue::MemoryUtilization);
        let (shown_by, of_active) = match measure {
            Measure::Devices { value, over, .. } => {
                ([Some(*value), None, None], *over == Over::Active)
            }
            Measure::HeldCount => {
                let others = [DeviceValue::GpuUtilization, DeviceValue::MemoryUsed];
                ([memory, Some(others[0]), Some(others[1])], false)
            }
            Measure::ActiveCount | Measure::IdleCount => ([memory, None, None], true),
            Measure::OriginalAverage => {
                let own = DeviceValue::Signal(SignalId::MEM_COPY_UTIL);
                ([Some(own), None, None], false)
            }
        };
        Self {
            shown_by,
            of_active,
        }
    }

    /// The device values read, the best first.
    #[inline]
    fn shown_by(self) -> impl Iterator<Item = DeviceValue> {
        self.shown_by.into_iter().flatten()
    }
}
