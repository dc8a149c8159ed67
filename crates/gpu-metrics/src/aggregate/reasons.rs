//! Explains a group's value: each device at each instant of the window.
//!
//! The instants' values come from the tally that computes the served number; the outcome
//! of each device is found by the same functions.

use super::super::frame::SampleTimes;
use super::super::grid::{RowId, instant_time};
use super::super::layout::{Object, RowFacts};
use super::super::metric::Value;
use super::super::policy::Measure;
use super::super::signal::SignalId;
use super::super::targets::TargetView;
use serde::{Deserialize, Serialize};

use super::fold::Fold;
use super::instant_reader::InstantReader;
use super::missing::Silent;
use super::tally::{Counts, Tallies, WindowTallies};
use super::{DeviceReading, Evaluator, MeasureInputs, MeasureRequest, Span, Spanned};
use apimachinery::time::{Timestamp, millis};

/// The outcome of a device's reading at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadingOutcome {
    /// It is part of the group's number.
    Counted,
    /// The device was idle, and the metric covers active ones.
    Idle,
    /// The device was active, and the metric covers idle ones.
    Active,
    /// No pod held the device, and the metric covers held ones.
    NotHeld,
    /// The reading that decides whether it is active is missing.
    ActivityUnknown,
    /// The reading is from before the object existed.
    BeforeItsTime,
    /// The reading is from after its pod ended.
    AfterItsTime,
    /// It was expected to answer and did not.
    Missing,
    /// Its exporter has reported other devices, but not this one, for longer than a
    /// window.
    Lost,
    /// It had no reading, and none was expected.
    NoReading,
}

/// The state of a device at an instant, and its reading where it answered.
pub type Outcome = (ReadingOutcome, Option<DeviceReading>);

/// An instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instant {
    /// Its time, in RFC 3339.
    pub time: String,
    /// The group's number; `None`: too few devices answered.
    pub number: Option<f64>,
    /// Devices that answered.
    pub answering: u32,
    /// Answering devices that the metric covers.
    pub counted: u32,
    /// Devices that should have answered and did not, including those that may be
    /// shared.
    pub missing: u32,
}

/// A device of a group, instant by instant.
#[derive(Clone, Debug)]
pub struct DeviceReasons<'a> {
    /// Its rows: one for each holder in the group.
    pub rows: Vec<&'a RowFacts>,
    /// The signal of its readings; `None`: several or none.
    pub signal: Option<SignalId>,
    /// Its exporter.
    pub target: Option<&'a TargetView>,
    /// The times of its first and newest known samples, of any signal.
    pub heard: Option<SampleTimes>,
    /// F, milliseconds, including the exporter's own lateness.
    pub fresh_ms: i64,
    /// Its outcome at each instant of the window.
    pub outcomes: Vec<Outcome>,
}

/// A device that a pod holds and does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleSince {
    /// The time of the first sample that shows it, in RFC 3339.
    pub since: String,
    /// Whether it may have been idle even earlier: older readings are missing.
    pub or_longer: bool,
}

/// The explanation of a group's value.
#[derive(Clone, Debug)]
pub struct Reasons<'a> {
    /// The window.
    pub span: Span,
    /// Its instants, in the order of time.
    pub instants: Vec<Instant>,
    /// The group's devices.
    pub devices: Vec<DeviceReasons<'a>>,
    /// The value to be served, from the same sum as without reasons.
    pub value: Option<Value>,
}

impl<'a> Evaluator<'a> {
    /// The explanation of a group's value; `None` if its targets have no samples. Not for
    /// the original exporter's number, in which devices have no part.
    pub(crate) fn reasons(
        &self,
        (group, span): Spanned<'_>,
        ask: &MeasureRequest,
    ) -> Option<Reasons<'a>> {
        let span = span?;
        if ask.measure == Measure::OriginalAverage {
            return None;
        }
        let devices = self.by_device(&group.members, &ask.measure);
        let devices = devices.map(|rows| self.device(rows, (group, &span), ask));
        let mut window = WindowTallies::of(std::slice::from_ref(ask));
        self.fill_each(&mut window, None, (group, &span));
        let mut fold = Fold::default();
        window.fold(span.last, std::slice::from_mut(&mut fold));
        let at = |instant| instant_time(instant, self.frame.step_ms());
        let instants = window.tallies();
        let instants = instants.map(|(instant, tallies)| tallies.reasons(at(instant)));
        Some(Reasons {
            span,
            instants: instants.collect(),
            devices: devices.collect(),
            value: self.finish(&fold, (group, Some(span)), ask),
        })
    }

    /// Since when a held device has not been in use, as far back as the longest window.
    /// `None`: it is in use, free or unknown, or the measure does not concern use.
    pub(crate) fn idle(
        &self,
        device: &DeviceReasons<'_>,
        (group, span): (&Object, &Span),
        ask: &MeasureRequest,
    ) -> Option<IdleSince> {
        if !MeasureInputs::of(&ask.measure).of_active {
            return None;
        }
        let rows: Vec<RowId> = device.rows.iter().map(|facts| facts.id).collect();
        let longest = millis(self.policy.max_window) / self.frame.step_ms();
        let (mut since, mut or_longer) = (None, true);
        for instant in (span.first.min(span.last - longest)..=span.last).rev() {
            let seen = InstantReader::new(*self, instant).read(&rows, &ask.measure, group.one_pod);
            if seen.value.is_nan() || seen.active.is_none() {
                break;
            }
            if seen.active == Some(true) || !seen.held || seen.is_outside(group) {
                or_longer = false;
                break;
            }
            since = Some(seen.at);
        }
        Some(IdleSince {
            since: since?.date(),
            or_longer,
        })
    }

    fn device(
        &self,
        rows: &[RowId],
        (group, span): (&Object, &Span),
        ask: &MeasureRequest,
    ) -> DeviceReasons<'a> {
        let facts: Vec<&RowFacts> = self.layout.facts_of(rows).collect();
        let at = |instant| InstantReader::new(*self, instant);
        let outcome = |instant| self.outcome(&at(instant), rows, (group, span), ask);
        let value = MeasureInputs::of(&ask.measure).shown_by().next();
        let of_first = facts.first().copied().zip(value);
        let heard = self.frame.heard(rows);
        let intervals = facts.first().and_then(|facts| self.row_target(facts));
        DeviceReasons {
            signal: of_first.and_then(|(facts, value)| at(span.last).signal_of(facts, value)),
            target: intervals.and_then(|target| self.frame.target(target.id)),
            heard: heard.filter(|heard| heard.first <= heard.newest),
            fresh_ms: intervals.map_or(0, |target| target.fresh_ms),
            rows: facts,
            outcomes: (span.first..=span.last).map(outcome).collect(),
        }
    }

    fn outcome(
        &self,
        now: &InstantReader<'_>,
        rows: &[RowId],
        (group, span): (&Object, &Span),
        ask: &MeasureRequest,
    ) -> Outcome {
        let seen = now.read(rows, &ask.measure, group.one_pod);
        if seen.value.is_nan() || seen.is_outside(group) {
            let state = match self.silent(now, rows, span, ask) {
                Silent::Missed(_) => ReadingOutcome::Missing,
                Silent::Lost => ReadingOutcome::Lost,
                Silent::NotExpected if seen.value.is_nan() => ReadingOutcome::NoReading,
                Silent::NotExpected if seen.after_end => ReadingOutcome::AfterItsTime,
                Silent::NotExpected => ReadingOutcome::BeforeItsTime,
            };
            return (state, None);
        }
        let counts = Counts::of(&ask.measure);
        let state = match seen.active {
            None => ReadingOutcome::ActivityUnknown,
            Some(_) if counts.includes(&seen) => ReadingOutcome::Counted,
            Some(_) if counts.held.is_some() && !seen.held => ReadingOutcome::NotHeld,
            Some(true) => ReadingOutcome::Active,
            Some(false) => ReadingOutcome::Idle,
        };
        (state, Some(seen))
    }
}

impl Tallies {
    /// The instant of the first ask.
    fn reasons(&self, at: Timestamp) -> Instant {
        let answers = &self.answers;
        let of_ask = self.of_asks.first();
        Instant {
            time: at.date(),
            number: of_ask.and_then(|tally| tally.number),
            answering: answers.valid,
            counted: of_ask.map_or(0, |tally| tally.counted),
            missing: answers.missing + answers.missing_at_most,
        }
    }
}
