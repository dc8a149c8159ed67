//! Devices that a group should hear from and does not.
//!
//! When half of the exporters fall silent, half of a sum is missing: whoever
//! scales by it would scale down because of an outage. So a group knows whom to
//! expect, and what the silent ones had last.

use super::super::inventory::Authority;
use super::super::layout::{RowFacts, Standing};
use super::super::policy::{DeviceValue, Measure};
use super::super::signal::SignalId;
use super::super::targets::TargetView;
use super::super::time::Timestamp;
use super::moment::Moment;
use super::tally::Tallies;
use super::{Ask, Evaluator, Group, Lens, RowId, Seen, Span};

/// A percent that is not known is taken for all of it.
const WHOLE: f64 = 100.0;

/// What is known of a device that does not answer.
pub(super) enum Silent {
    /// Nobody waits for it.
    NotExpected,
    /// Its target answers for others without it, for longer than a window.
    Lost,
    /// It is missed; its last reading, if one is remembered.
    Missed(Option<f64>),
}

impl Evaluator<'_> {
    /// Notes a device of a group that has no reading at an instant.
    pub(super) fn miss(
        &self,
        now: &Moment<'_>,
        rows: &[RowId],
        span: &Span,
        asks: &[Ask],
        tallies: &mut Tallies,
    ) {
        let Some(first) = asks.first() else { return };
        let Silent::Missed(last) = self.silent(now, rows, span, first) else {
            return;
        };
        tallies.answers.missing += 1;
        for (tally, ask) in tallies.of_asks.iter_mut().zip(asks) {
            tally.missing_sum += match last {
                Some(last) => carried(&ask.measure, last),
                None => self.unknown(now, &ask.measure),
            };
        }
    }

    /// Notes a device that answers, but not for what decides whether it is
    /// active: it is missing, whoever knows that it should be there.
    pub(super) fn miss_activity(&self, seen: &Seen, asks: &[Ask], tallies: &mut Tallies) {
        tallies.answers.missing += 1;
        for (tally, ask) in tallies.of_asks.iter_mut().zip(asks) {
            tally.missing_sum += match ask.measure {
                Measure::Devices { .. } => seen.value,
                _ => f64::from(seen.held),
            };
        }
    }

    /// At the last instant of a window the newest reading of a device may lie
    /// after it, where the device is ahead of the horizon: the value is fresh as
    /// long as that.
    pub(super) fn lengthen(
        &self,
        now: &Moment<'_>,
        rows: &[RowId],
        seen: &Seen,
        ask: &Ask,
        fresh_until: &mut Timestamp,
    ) {
        let lens = Lens::of(&ask.measure);
        for row in rows {
            let heard = self.frame.heard(*row).map(|heard| heard.newest);
            // Most are no later than those before them.
            let later =
                |heard: &Timestamp| *heard > now.time() && seen.fresh_until(*heard) > *fresh_until;
            let (Some(heard), Some(facts)) = (heard.filter(later), self.layout.fact(*row)) else {
                continue;
            };
            let until = self.frame.instant_from(heard);
            let newest = lens
                .shown_by()
                .find_map(|value| now.last(facts, value, until));
            if let Some(newest) = newest {
                *fresh_until = (*fresh_until).max(seen.fresh_until(newest.at));
            }
        }
    }

    /// Notes GPUs that pods of the group request and of which none was seen.
    pub(super) fn miss_unseen(
        &self,
        now: &Moment<'_>,
        group: &Group<'_>,
        span: &Span,
        asks: &[Ask],
        tallies: &mut Tallies,
    ) {
        for unseen in group.unseen {
            if unseen.since.millis() + span.grace_ms >= now.time().millis() {
                continue;
            }
            if unseen.shared {
                tallies.answers.missing_at_most += unseen.count;
            } else {
                tallies.answers.missing += unseen.count;
            }
            for (tally, ask) in tallies.of_asks.iter_mut().zip(asks) {
                tally.missing_sum += f64::from(unseen.count) * self.unknown(now, &ask.measure);
            }
        }
    }

    pub(super) fn silent(
        &self,
        now: &Moment<'_>,
        rows: &[RowId],
        span: &Span,
        ask: &Ask,
    ) -> Silent {
        let expected = rows
            .iter()
            .filter_map(|row| self.layout.fact(*row))
            .find(|facts| self.is_expected(facts, now.time(), span));
        let Some((facts, target)) = expected.and_then(|facts| Some((facts, self.target(facts)?)))
        else {
            return Silent::NotExpected;
        };
        if facts.shares_place && self.is_replaced(facts, now.time()) {
            return Silent::NotExpected;
        }
        let lens = Lens::of(&ask.measure);
        let last_until = |until| {
            lens.shown_by()
                .find_map(|value| now.last(facts, value, until))
        };
        let last = last_until(span.last);
        // A target that has just come back may have answered for the device
        // after the window's last instant.
        let until = self.frame.instant_from(target.newest).max(span.last);
        let newest = match until == span.last {
            true => last,
            false => last_until(until),
        };
        let since = match (newest, self.frame.heard(facts.id)) {
            (Some(newest), _) => newest.at,
            (None, Some(heard)) => heard.first,
            (None, None) => Timestamp::MIN,
        };
        let lost = !target.silent && target.newest.millis() - since.millis() > span.window_ms;
        if lost {
            return Silent::Lost;
        }
        Silent::Missed(last.map(|last| last.value))
    }

    /// Whether a device is expected to answer at an instant: its pod lives, and
    /// it was heard before, or its containers run for a while. Without a
    /// cluster nobody knows which pods live: then only a silent exporter's
    /// devices are missed.
    fn is_expected(&self, facts: &RowFacts, instant: Timestamp, span: &Span) -> bool {
        if facts.standing != Standing::Held {
            return false;
        }
        if self.layout.inventory().authority == Authority::Series
            && !self.target(facts).is_some_and(|target| target.silent)
        {
            return false;
        }
        let heard = self.frame.heard(facts.id).map(|heard| heard.first);
        let heard = heard.is_some_and(|first| first.max(facts.started) <= instant);
        let grown = |since: Timestamp| since.millis() + span.grace_ms < instant.millis();
        heard || facts.running_since.is_some_and(grown)
    }

    /// Whether another device has taken the place of a row's behind the same
    /// exporter up to an instant: it was first heard after this one was last.
    pub(super) fn is_replaced(&self, facts: &RowFacts, instant: Timestamp) -> bool {
        let heard = |device: u32| {
            let rows = self.layout.device_rows(device).iter();
            rows.filter_map(|row| self.frame.heard(*row))
        };
        let Some(newest) = heard(facts.device).map(|heard| heard.newest).max() else {
            return false;
        };
        let mut rivals = self.layout.rivals_of(facts.device).iter();
        rivals.any(|rival| {
            let first = heard(*rival).map(|heard| heard.first).min();
            first.is_some_and(|first| first > newest && first <= instant)
        })
    }

    /// The target whose cadence is a row's.
    pub(super) fn target(&self, facts: &RowFacts) -> Option<&TargetView> {
        let target = self.targets.get(facts.id.0 as usize)?;
        self.frame.target(target.id)
    }

    /// What a device of which nothing is known may add to a measure.
    fn unknown(&self, now: &Moment<'_>, measure: &Measure) -> f64 {
        let Measure::Devices { value, .. } = measure else {
            return 1.0;
        };
        match value {
            DeviceValue::MemoryUtilization
            | DeviceValue::GpuUtilization
            | DeviceValue::MemoryUsedPercent
            | DeviceValue::Signal(SignalId::DRAM_ACTIVE | SignalId::GR_ENGINE_ACTIVE) => WHOLE,
            DeviceValue::MemoryUsed | DeviceValue::PowerUsage | DeviceValue::Signal(_) => {
                now.largest(*value)
            }
        }
    }
}

/// What a device with this last reading would add to a measure.
fn carried(measure: &Measure, last: f64) -> f64 {
    match measure {
        Measure::Devices { .. } => last,
        Measure::ActiveCount => f64::from(last > 0.0),
        Measure::IdleCount => f64::from(last <= 0.0),
        Measure::HeldCount | Measure::OriginalAverage => 1.0,
    }
}
