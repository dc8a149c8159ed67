//! The value of an object: the mean of its numbers at the defined instants of a window.

use apimachinery::time::{Timestamp, millis};

use crate::grid::instant_time;
use crate::layout::Object;
use crate::metric::Value;
use crate::policy::{Measure, Policy};
use crate::reading::{AHEAD_MS, Inputs, Span};
use crate::snapshot::Snapshot;
use crate::tally::{Readings, Tallies};

/// The default window, milliseconds.
pub(crate) const DEFAULT_MS: i64 = 60_000;

/// A value is served while one of the instants in the last part of its window is defined.
/// The length of this part, milliseconds.
const SERVED_MS: i64 = 30_000;

/// A value is also served while one of this many last instants of its window is defined.
const SERVED_INSTANTS: i64 = 2;

/// The length of a window: as requested or configured, otherwise a minute; at most the
/// longest one. Milliseconds.
#[must_use]
pub fn window_ms(policy: &Policy, asked_ms: Option<i64>) -> i64 {
    let set = asked_ms.or(policy.window.map(millis));
    set.unwrap_or(DEFAULT_MS).min(millis(policy.max_window))
}

impl Snapshot {
    /// The instants of a window, by the time of a source without lateness.
    pub(crate) fn span(&self, asked_ms: Option<i64>) -> Span {
        let step_ms = self.frame.step_ms;
        let window_ms = window_ms(&self.policy, asked_ms);
        let last = self.end();
        let instants = (window_ms + step_ms - 1) / step_ms;
        Span {
            first: last - instants.max(1) + 1,
            last,
        }
    }

    /// Adds the values of an object, one for each measure of the tallies.
    pub(crate) fn add_values(
        &self,
        object: &Object,
        readings: &Readings,
        tallies: &mut Tallies,
        to: &mut Vec<Option<Value>>,
    ) {
        self.tally(object, readings, tallies);
        let measures = 0..tallies.measures();
        to.extend(measures.map(|place| self.finish(tallies, place)));
    }

    fn finish(&self, tallies: &Tallies, place: usize) -> Option<Value> {
        let (mut sum, mut defined) = (0.0, 0_u32);
        let (mut first, mut last) = (None, None);
        let mut newest = Timestamp::MIN;
        let all = tallies.answering.iter().zip(tallies.numbers(place));
        for (instant, (answering, (_, number))) in tallies.span.instants().zip(all) {
            if answering.valid > 0 {
                first.get_or_insert(instant);
            }
            if let Some(number) = number {
                (sum, defined, last) = (sum + number, defined + 1, Some(instant));
                newest = newest.max(answering.newest);
            }
        }
        let step_ms = self.frame.step_ms;
        let served_ms = SERVED_MS.max(SERVED_INSTANTS * step_ms);
        let ended_ms = instant_time(last?, step_ms).millis() + served_ms;
        let fresh_until = Timestamp::from_millis(ended_ms - AHEAD_MS);
        if fresh_until <= self.frame.now {
            return None;
        }
        let covered_ms = (tallies.span.last - first? + 1) * step_ms;
        Some(Value {
            value: sum / f64::from(defined),
            at: newest,
            fresh_until,
            window_secs: u32::try_from((covered_ms + 500) / 1000).unwrap_or(u32::MAX),
        })
    }
}

/// The metrics by index, in groups with the same readings.
pub(crate) fn families(measures: &[Measure]) -> Vec<Vec<usize>> {
    let key = |measure: &Measure| {
        let is_original = *measure == Measure::OriginalAverage;
        (Inputs::of(measure), is_original)
    };
    let mut families: Vec<Vec<usize>> = Vec::new();
    for (index, measure) in measures.iter().enumerate() {
        let is_alike = |other: &usize| key(&measures[*other]) == key(measure);
        let mut known = families.iter_mut();
        match known.find(|family| family.first().is_some_and(is_alike)) {
            Some(family) => family.push(index),
            None => families.push(vec![index]),
        }
    }
    families
}
