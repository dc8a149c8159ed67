//! How far back the next queries must reach.

use std::time::Duration;

use crate::core::signal::SignalId;
use crate::core::targets::{Targets, USUAL_MAX_MS};
use crate::core::time::Timestamp;

/// How often it is looked whether a signal that nobody needed is there.
const LOOK_AGAIN_MS: i64 = 600_000;

/// How often it is looked for targets that are not known, as far back as
/// samples may be late.
const LOOK_BACK_EVERY_MS: i64 = 60_000;

/// So many answers that took too long count as one that was too large: a store
/// that stands still is to be read up when it goes on.
const TOO_SLOW: u32 = 8;

/// What is known of a signal's past.
#[derive(Clone, Copy, Debug, Default)]
struct Coverage {
    /// Until when it was asked for; `None`: the whole window is wanted.
    until: Option<Timestamp>,
    /// When it was last asked for of all devices.
    of_all: Option<Timestamp>,
    /// Whether it was ever answered.
    answered: bool,
    /// How often in a row it was refused, in parts of [`TOO_SLOW`].
    refusals: u32,
}

/// How far each signal is known, and where late samples may still be.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    coverage: Vec<Coverage>,
    /// Where samples not read yet may begin.
    from: Timestamp,
    /// When stragglers were last waited for.
    reached_back: Timestamp,
    /// When it was last looked for targets that nobody knows.
    looked: Timestamp,
}

impl Reach {
    pub(super) fn new(signals: usize) -> Self {
        Self {
            coverage: vec![Coverage::default(); signals],
            from: Timestamp::MAX,
            reached_back: Timestamp::MIN,
            looked: Timestamp::MIN,
        }
    }

    pub(super) fn range(
        &self,
        signal: SignalId,
        now: Timestamp,
        fresh_ms: i64,
        all_ms: i64,
    ) -> Duration {
        let coverage = self.coverage.get(signal.index());
        let coverage = coverage.copied().unwrap_or_default();
        let wanted = match coverage.until {
            Some(until) => now.millis() - until.min(self.from).millis() + fresh_ms,
            None => all_ms,
        };
        // After an outage as well: what is too much of that time must not keep away
        // what is new.
        let granted = wanted.min(all_ms) >> (coverage.refusals / TOO_SLOW).min(16);
        // A clock that went back must not shrink the range to nothing.
        let wanted = granted.clamp(fresh_ms.min(all_ms), all_ms);
        Duration::from_millis(u64::try_from(wanted).unwrap_or(0))
    }

    /// Whether a signal was not asked for of all devices lately.
    pub(super) fn is_long_ago(&self, signal: SignalId, now: Timestamp) -> bool {
        let of_all = self.coverage.get(signal.index()).and_then(|of| of.of_all);
        of_all.is_none_or(|of_all| now.millis() - of_all.millis() >= LOOK_AGAIN_MS)
    }

    /// Whether each signal was ever answered: of one that was not, nobody knows
    /// which devices have it.
    pub(super) fn are_answered(&self) -> Vec<bool> {
        self.coverage.iter().map(|of| of.answered).collect()
    }

    /// A query was answered that reached `until`, or brought nothing of a signal
    /// that had been there; when it was of all devices.
    pub(super) fn answered(
        &mut self,
        signal: SignalId,
        until: Option<Timestamp>,
        of_all: Option<Timestamp>,
    ) {
        if let Some(coverage) = self.coverage.get_mut(signal.index()) {
            *coverage = Coverage {
                until: until.or(coverage.until),
                of_all: of_all.or(coverage.of_all),
                answered: true,
                refusals: 0,
            };
        }
    }

    /// A query was refused: for its size, or for the time it took.
    pub(super) fn refused(&mut self, signal: SignalId, is_too_large: bool) {
        if let Some(coverage) = self.coverage.get_mut(signal.index()) {
            let is_whole = coverage.until.is_none();
            let parts = if is_too_large || is_whole {
                TOO_SLOW
            } else {
                1
            };
            coverage.refusals = coverage.refusals.saturating_add(parts);
        }
    }

    /// The whole window is wanted again.
    pub(super) fn start_over(&mut self) {
        for coverage in &mut self.coverage {
            *coverage = Coverage {
                answered: coverage.answered,
                ..Coverage::default()
            };
        }
    }

    /// After a round: the next one begins where the target furthest behind
    /// stands that is not given up; once per F where a tenth of all stand, whose
    /// samples may come late; and once a minute where targets may stand that are
    /// not known, in a store that is late or with a clock that is.
    pub(super) fn end_round(&mut self, targets: &Targets, now: Timestamp, window_ms: i64) {
        let read = targets.read_until(now, window_ms);
        self.from = read.unwrap_or(Timestamp::MAX);
        let fresh_ms = targets.longest_fresh_ms().max(1);
        let is_due = |last: Timestamp, every_ms: i64| {
            now.millis().div_euclid(every_ms) != last.millis().div_euclid(every_ms)
        };
        let Some(stragglers) = targets.stragglers(now, window_ms) else {
            self.from = Timestamp::from_millis(now.millis() - window_ms);
            return;
        };
        if stragglers < self.from && is_due(self.reached_back, fresh_ms) {
            self.from = stragglers;
            self.reached_back = now;
        }
        if is_due(self.looked, LOOK_BACK_EVERY_MS) {
            let latest = Timestamp::from_millis(now.millis() - USUAL_MAX_MS);
            self.from = self.from.min(latest);
            self.looked = now;
        }
    }
}
