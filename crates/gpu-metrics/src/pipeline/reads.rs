//! How far back the next queries must reach.

use std::time::Duration;

use crate::signal::SignalId;
use crate::targets::{LATENESS_MAX_MS, Targets};
use apimachinery::time::Timestamp;

/// How often it is looked whether a signal that no device needed is there.
const LOOK_AGAIN_MS: i64 = 600_000;

/// How often it is looked for targets that are not known, as far back as samples
/// may be late.
const LOOK_BACK_EVERY_MS: i64 = 60_000;

/// What is known of a signal's past.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    /// Until when it was read; `None`: as much as at a start is wanted.
    until: Option<Timestamp>,
    /// When it was last asked for of all devices.
    of_all: Option<Timestamp>,
    /// Whether it was ever answered.
    answered: bool,
    /// How often in a row it was refused.
    refusals: u32,
}

/// How far each signal was read, and where late samples may still be.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    of_signals: Vec<Read>,
    /// How far back a start reads, milliseconds.
    back_ms: i64,
    /// Where samples that were not read yet may begin.
    from: Timestamp,
    /// When targets that are not known were last looked for.
    looked: Timestamp,
}

impl Reads {
    pub(super) fn new(signals: usize, back_ms: i64) -> Self {
        Self {
            of_signals: vec![Read::default(); signals],
            back_ms,
            from: Timestamp::MAX,
            looked: Timestamp::MIN,
        }
    }

    pub(super) fn range(&self, signal: SignalId, now: Timestamp, targets: &Targets) -> Duration {
        let read = self.of_signals.get(signal.index());
        let read = read.copied().unwrap_or_default();
        let fresh_ms = targets.longest_fresh_ms() + targets.longest_lag_ms();
        let wanted_ms = match read.until {
            Some(until) => now.millis() - until.min(self.from).millis() + fresh_ms,
            None => self.back_ms,
        };
        // What is too much of the past must not keep away what is new.
        let granted_ms = wanted_ms.min(self.back_ms) >> read.refusals.min(16);
        // A clock that went back must not shrink the range to nothing.
        let range_ms = granted_ms.clamp(fresh_ms.min(self.back_ms), self.back_ms);
        Duration::from_millis(u64::try_from(range_ms).unwrap_or(0))
    }

    /// Whether a signal was not asked for of all devices lately.
    pub(super) fn is_long_ago(&self, signal: SignalId, now: Timestamp) -> bool {
        let of_all = self.of_signals.get(signal.index()).and_then(|it| it.of_all);
        of_all.is_none_or(|of_all| now.millis() - of_all.millis() >= LOOK_AGAIN_MS)
    }

    /// Whether each signal was ever answered: of one that was not, it is not known
    /// which devices have it.
    pub(super) fn are_answered(&self) -> Vec<bool> {
        self.of_signals.iter().map(|it| it.answered).collect()
    }

    /// Whether a signal was ever answered.
    pub(super) fn is_answered(&self, signal: SignalId) -> bool {
        let read = self.of_signals.get(signal.index());
        read.is_some_and(|read| read.answered)
    }

    /// A query was answered that reached `until`, or brought nothing of a signal
    /// that had been there; when it was of all devices.
    pub(super) fn answered(
        &mut self,
        signal: SignalId,
        until: Option<Timestamp>,
        of_all: Option<Timestamp>,
    ) {
        if let Some(read) = self.of_signals.get_mut(signal.index()) {
            *read = Read {
                until: until.or(read.until),
                of_all: of_all.or(read.of_all),
                answered: true,
                refusals: 0,
            };
        }
    }

    /// A query was refused: for its size, or for the time it took.
    pub(super) fn refused(&mut self, signal: SignalId) {
        if let Some(read) = self.of_signals.get_mut(signal.index()) {
            read.refusals = read.refusals.saturating_add(1);
        }
    }

    /// As much as at a start is wanted again.
    pub(super) fn start_over(&mut self) {
        for read in &mut self.of_signals {
            *read = Read {
                answered: read.answered,
                ..Read::default()
            };
        }
    }

    /// After a round: the next one begins where the target furthest behind stands
    /// that may still send samples; once a minute where targets may stand that are
    /// not known, in a store that is late or with a clock that is.
    pub(super) fn end_round(&mut self, targets: &Targets, now: Timestamp) {
        self.from = targets.unread_since(now).unwrap_or(Timestamp::MAX);
        let minute = |at: Timestamp| at.millis().div_euclid(LOOK_BACK_EVERY_MS);
        if minute(now) != minute(self.looked) {
            let latest = Timestamp::from_millis(now.millis() - LATENESS_MAX_MS);
            self.from = self.from.min(latest);
            self.looked = now;
        }
    }
}
