//! Explains an object's value: each device at each instant of the window.
//!
//! The instants' numbers come from the tally that computes the served number; the outcome of
//! each device is found by the same function.

use apimachinery::time::{Timestamp, millis};

use crate::absence::DeviceTimes;
use crate::explain::{IdleSince, Instant, ReadingOutcome};
use crate::grid::instant_time;
use crate::layout::{Member, Object};
use crate::metric::Value;
use crate::policy::{Formula, Measure};
pub use crate::reading::DeviceReading;
use crate::reading::{Inputs, Reader, Span};
use crate::signal::SignalId;
use crate::tally::{Counts, OfDevice, Outcome, Readings, Tallies, devices_of};
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
    /// Its outcome and reading at each instant, and whether a pod held it.
    pub outcomes: Vec<InstantOutcome>,
    /// Since when it has been held and idle.
    pub idle: Option<IdleSince>,
}

/// The outcome of a device at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstantOutcome {
    pub state: ReadingOutcome,
    pub reading: Option<DeviceReading>,
    pub is_held: bool,
}

impl Reader<'_> {
    pub(crate) fn reasons(
        &self,
        object: &Object,
        measure: &Measure,
        formula: Formula,
        asked_ms: Option<i64>,
    ) -> Option<Reasons> {
        let (span, inputs) = (self.span(asked_ms), Inputs::of(measure));
        if *measure == Measure::OriginalAverage || object.members.is_empty() {
            return None;
        }
        let readings = Readings::of_object(self, object, inputs, span);
        let measures = std::slice::from_ref(measure);
        let mut tallies = Tallies::of(measures, span);
        let mut value = Vec::new();
        self.values(
            object,
            &readings,
            (measures, formula),
            &mut tallies,
            &mut value,
        );
        let devices = devices_of(object).enumerate();
        let devices = devices.map(|(place, members)| {
            let of_device = OfDevice::new(self, object, members, &readings);
            let own = readings.get(place, members[0].device);
            self.device_reasons(&of_device, members, own, measure, span)
        });
        let mut devices: Vec<DeviceReasons> = devices.collect();
        if inputs.is_of_board() {
            self.count_boards_once(&mut devices);
        }
        let behind = devices.iter().map(|it| self.behind_of(it.device));
        let (least, most) = (behind.clone().min()?, behind.max()?);
        let lag = devices.iter().filter_map(|it| Some(it.times?.lag_ms)).max();
        let at = |instant| instant_time(instant - most, self.frame.step_ms);
        let all = tallies.answering.iter().zip(tallies.of_measure(0));
        let instants = span
            .instants()
            .zip(all)
            .map(|(instant, (of, tally))| Instant {
                time: at(instant).date(),
                number: tally.number,
                answering: of.valid,
                counted: tally.counted,
                missing: of.missing + of.missing_at_most,
            });
        Some(Reasons {
            window_ms: window_ms(self.policy, asked_ms),
            end: at(span.last),
            lag_ms: lag.unwrap_or(0),
            has_several_ends: least != most,
            instants: instants.collect(),
            value: value.first().copied().flatten(),
            unseen: self.unseen_now(object),
            devices,
        })
    }

    /// Leaves the reading that all instances of a board repeat to the first of them.
    fn count_boards_once(&self, devices: &mut [DeviceReasons]) {
        let board = |of: &DeviceReasons| self.layout.devices[of.device as usize].board;
        for of_board in devices.chunk_by_mut(|one, other| board(one) == board(other)) {
            let count = of_board.first().map_or(0, |it| it.outcomes.len());
            let mut is_seen = vec![false; count];
            for outcomes in of_board.iter_mut().map(|it| &mut it.outcomes) {
                for (outcome, is_seen) in outcomes.iter_mut().zip(&mut is_seen) {
                    if *is_seen {
                        (outcome.state, outcome.reading) = (ReadingOutcome::NoReading, None);
                    }
                    *is_seen |= outcome.reading.is_some();
                }
            }
        }
    }

    fn device_reasons(
        &self,
        of: &OfDevice<'_>,
        members: &[Member],
        own: &[DeviceReading],
        measure: &Measure,
        span: Span,
    ) -> DeviceReasons {
        let device = members[0].device;
        let counts = Counts::of(*measure);
        let held = self.held(device, span);
        let outcomes = own
            .iter()
            .zip(held)
            .enumerate()
            .map(|(place, (seen, is_held))| {
                let (state, reading) = match of.outcome(place, seen) {
                    Outcome::Answers { reading, is_held } => {
                        (counts.outcome(&reading, is_held), Some(reading))
                    }
                    Outcome::ActivityUnknown { reading } => {
                        (ReadingOutcome::ActivityUnknown, Some(reading))
                    }
                    Outcome::Missing => (ReadingOutcome::Missing, None),
                    Outcome::Lost => (ReadingOutcome::Lost, None),
                    Outcome::Outside => (ReadingOutcome::Outside, None),
                    Outcome::NoReading => (ReadingOutcome::NoReading, None),
                };
                InstantOutcome {
                    state,
                    reading,
                    is_held,
                }
            });
        let inputs = Inputs::of(measure);
        DeviceReasons {
            device,
            members: members.to_vec(),
            signal: inputs
                .shown_by()
                .next()
                .and_then(|value| self.signal_of(device, value, span)),
            times: self.times(device),
            outcomes: outcomes.collect(),
            idle: inputs
                .of_active
                .then(|| self.idle(device, inputs))
                .flatten(),
        }
    }

    /// Since when a held device has not been in use, as far back as the longest window.
    fn idle(&self, device: u32, inputs: Inputs) -> Option<IdleSince> {
        let span = self.span(Some(millis(self.policy.max_window)));
        let mut readings = Vec::new();
        self.read(device, inputs, span, &mut readings);
        let held = self.held(device, span);
        let (mut since, mut or_longer) = (None, true);
        for (seen, is_held) in readings.iter().zip(held).rev() {
            if seen.is_missing() || seen.active.is_none() {
                break;
            }
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
