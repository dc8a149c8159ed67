//! Explains an object's value: each device at each instant of the window.
//!
//! The instants' numbers come from the tally that computes the served number; the outcome of
//! each device is found by the same function.

use std::time::Duration;

use apimachinery::time::{Timestamp, millis};

use crate::absence::DeviceTimes;
use crate::counts::Counts;
use crate::explain::{ExplainedReading, IdleSince, Instant};
use crate::grid::instant_time;
use crate::layout::{Member, Object};
use crate::metric::Value;
use crate::outcome::{OfDevice, Outcome};
use crate::policy::Measure;
use crate::reading::{Inputs, Span};
use crate::signal::SignalId;
use crate::snapshot::Snapshot;
use crate::tally::{Readings, Tallies};
use crate::window::window_ms;

/// The explanation of an object's value.
#[derive(Clone, Debug)]
pub struct Reasons {
    /// The length of the window, milliseconds.
    pub window_ms: i64,
    /// The last instant, by the time of the latest source of the object.
    pub end: Timestamp,
    /// L of the latest source, milliseconds.
    pub lag_ms: i64,
    /// Whether the object's devices have sources of different lateness, whose windows end at
    /// different times.
    pub has_several_ends: bool,
    /// The instants, in the order of time.
    pub instants: Vec<Instant>,
    pub devices: Vec<DeviceReasons>,
    /// The value to be served.
    pub value: Option<Value>,
    /// GPUs that the object's pods request and that no series names.
    pub unseen: usize,
}

/// A device of an object, instant by instant.
#[derive(Clone, Debug)]
pub struct DeviceReasons {
    pub device: u32,
    /// The claims of the object's pods.
    pub members: Vec<Member>,
    /// The signal of its readings; `None`: several or none.
    pub signal: Option<SignalId>,
    pub times: Option<DeviceTimes>,
    /// Its reading at each instant.
    pub readings: Vec<ExplainedReading>,
    /// Since when it has been held and idle.
    pub idle: Option<IdleSince>,
}

impl Snapshot {
    /// Explains the value of an object: [`Snapshot::evaluate`] with reasons. Not for the
    /// original exporter's number, in which objects have no part.
    #[must_use]
    pub fn reasons(
        &self,
        object: &Object,
        measure: &Measure,
        window: Option<Duration>,
    ) -> Option<Reasons> {
        let asked_ms = window.map(millis);
        let (span, inputs) = (self.span(asked_ms), Inputs::of(measure));
        if *measure == Measure::OriginalAverage || object.members.is_empty() {
            return None;
        }
        let readings = Readings::of(self, Some(object), inputs, span);
        let measures = std::slice::from_ref(measure);
        let mut tallies = Tallies::of(measures, span);
        let mut value = Vec::new();
        self.add_values(object, &readings, &mut tallies, &mut value);
        let mut devices: Vec<DeviceReasons> = Vec::new();
        self.each_device(object, &readings, |of, own| {
            let outcomes = of.outcomes(own).zip(span.instants());
            let readings = outcomes.map(|(outcome, instant)| {
                let is_held = self.holdings.is_held(&self.layout, of.device, instant);
                explained(outcome, *measure, is_held)
            });
            devices.push(DeviceReasons {
                readings: readings.collect(),
                ..self.device_reasons(of, inputs, span)
            });
        });
        let behind = devices.iter().map(|it| self.holdings.behind(it.device));
        let (least, most) = (behind.clone().min()?, behind.max()?);
        let lag = devices.iter().filter_map(|it| Some(it.times?.lag_ms)).max();
        let at = |instant| instant_time(instant - most, self.frame.step_ms);
        let all = tallies.answering.iter().zip(tallies.numbers(0));
        let instants = span
            .instants()
            .zip(all)
            .map(|(instant, (of, (counted, number)))| Instant {
                time: at(instant).date(),
                number,
                answering: of.valid,
                counted,
                missing: of.missing + of.missing_at_most,
            });
        Some(Reasons {
            window_ms: window_ms(&self.policy, asked_ms),
            end: at(span.last),
            lag_ms: lag.unwrap_or(0),
            has_several_ends: least != most,
            instants: instants.collect(),
            value: value.first().copied().flatten(),
            unseen: self.unseen(object),
            devices,
        })
    }

    fn device_reasons(&self, of: &OfDevice<'_>, inputs: Inputs, span: Span) -> DeviceReasons {
        let value = inputs.shown_by().next();
        let idle = inputs.of_active.then(|| self.idle(of.device, inputs));
        DeviceReasons {
            device: of.device,
            members: of.members.to_vec(),
            signal: value.and_then(|value| self.signal_of(of.device, value, span.last)),
            times: self.times(of.device),
            readings: Vec::new(),
            idle: idle.flatten(),
        }
    }

    /// Since when a held device has not been in use, as far back as the longest window.
    fn idle(&self, device: u32, inputs: Inputs) -> Option<IdleSince> {
        let span = self.span(Some(millis(self.policy.max_window)));
        let (mut since, mut or_longer) = (None, true);
        for instant in span.instants().rev() {
            let seen = self.read(device, inputs, &mut Span::at(instant));
            if seen.is_missing() || seen.active.is_none() {
                break;
            }
            let is_held = self.holdings.is_held(&self.layout, device, instant);
            if seen.active == Some(true) || !is_held {
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
}

/// The reading of a device at an instant. The count of held devices shows no numbers.
fn explained(outcome: Outcome, measure: Measure, is_held_at_all: bool) -> ExplainedReading {
    let (state, reading) = match outcome {
        Outcome::Answers { reading, is_held } => (
            Counts::of(measure).outcome(&reading, is_held),
            Some(reading),
        ),
        Outcome::Without(state) => (state, None),
    };
    let shown = reading.filter(|_| measure != Measure::HeldCount);
    ExplainedReading {
        number: shown.map(|reading| reading.value),
        sampled: reading.map(|reading| reading.at.date()),
        held: reading.map(|_| is_held_at_all),
        state,
    }
}
