//! How far back the next queries of a Prometheus must reach.

use std::time::Duration;

use crate::signal::SignalId;
use crate::source::LATENESS_MAX_MS;
use crate::store::Store;
use apimachinery::time::Timestamp;

/// How often to check whether a signal that no device needed exists.
const LOOK_AGAIN_MS: i64 = 60_000;

/// How often to look for unknown targets, as far back as samples may be late.
const LOOK_BACK_EVERY_MS: i64 = 60_000;

/// How far each signal of a Prometheus was read, and where late samples may still be.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    /// By signal, when it was last answered.
    pub(crate) answered: Vec<Option<Timestamp>>,
    /// The earliest time of samples that may not have been read yet.
    from: Timestamp,
    /// When unknown targets were last looked for.
    looked: Timestamp,
    /// The evaluation time of the last query that was answered.
    pub(crate) latest: Timestamp,
}

impl Reads {
    pub(crate) fn new(signals: usize) -> Self {
        Self {
            answered: vec![None; signals],
            from: Timestamp::MAX,
            looked: Timestamp::MIN,
            latest: Timestamp::MIN,
        }
    }

    fn last(&self, signal: SignalId) -> Option<Timestamp> {
        self.answered.get(signal.index()).copied().flatten()
    }

    pub(crate) fn range(&self, signal: SignalId, now: Timestamp, store: &Store) -> Duration {
        let fresh_ms = store.longest_fresh_ms + store.sources.longest_lag_ms();
        let wanted_ms = match self.last(signal) {
            Some(last) => now.millis() - last.min(self.from).millis() + fresh_ms,
            None => store.back_ms,
        };
        // A clock set back must not shrink the range to nothing.
        let range_ms = wanted_ms.clamp(fresh_ms.min(store.back_ms), store.back_ms);
        Duration::from_millis(u64::try_from(range_ms).unwrap_or(0))
    }

    /// Whether the last answer was long ago.
    pub(crate) fn is_long_ago(&self, signal: SignalId, now: Timestamp) -> bool {
        let last = self.last(signal);
        last.is_none_or(|last| now.millis() - last.millis() >= LOOK_AGAIN_MS)
    }

    /// Whether a signal was ever answered.
    pub(crate) fn is_answered(&self, signal: SignalId) -> bool {
        self.last(signal).is_some()
    }

    /// Records that a query for a signal with this evaluation time was answered.
    pub(crate) fn answered(&mut self, signal: SignalId, now: Timestamp) {
        if let Some(answered) = self.answered.get_mut(signal.index()) {
            *answered = Some(now);
        }
    }

    /// Ends a round: the next one begins at the newest sample of the target furthest
    /// behind that may still send samples. Once a minute it begins earlier, for unknown
    /// targets of a late store or a late clock.
    pub(crate) fn end_round(&mut self, store: &Store, now: Timestamp) {
        self.from = store.unread_since(now).unwrap_or(Timestamp::MAX);
        let minute = |at: Timestamp| at.millis().div_euclid(LOOK_BACK_EVERY_MS);
        if minute(now) != minute(self.looked) {
            let latest = Timestamp::from_millis(now.millis() - LATENESS_MAX_MS);
            self.from = self.from.min(latest);
            self.looked = now;
        }
    }
}
