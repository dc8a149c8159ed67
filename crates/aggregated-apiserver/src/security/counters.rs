//! Counters of the security layers, which telemetry reads. Their label values are a closed
//! set, so that clients cannot add series.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::denied::Denied;

/// Counts of one kind of review.
#[derive(Debug, Default)]
pub struct ReviewCounts {
    /// Allowed.
    pub allowed: AtomicU64,
    /// Refused.
    pub refused: AtomicU64,
    /// Failed or timed out.
    pub failed: AtomicU64,
    /// Answered from the cache.
    pub hits: AtomicU64,
    /// Not in the cache: sent, or joined to the same review in progress.
    pub misses: AtomicU64,
}

/// All counters.
#[derive(Debug, Default)]
pub struct Counters {
    /// TokenReviews.
    pub tokens: Arc<ReviewCounts>,
    /// SubjectAccessReviews.
    pub accesses: Arc<ReviewCounts>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    /// The number of requests refused for a reason, which is one of [`Denied::LABELS`].
    pub fn refusals(&self, word: &str) -> u64 {
        self.refused.lock().get(word).copied().unwrap_or(0)
    }

    pub(crate) fn refused(&self, denied: &Denied) {
        *self.refused.lock().entry(denied.label()).or_default() += 1;
    }
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::reviewer::Access;

    #[test]
    fn every_reason_of_refusal_has_its_own_counter() {
        let why = String::new;
        let all = [
            Denied::Unauthenticated { why: why() },
            Denied::Impersonation,
            Denied::Forbidden {
                user: String::new(),
                what: Box::new(Access::all_pods()),
                reason: String::new(),
            },
            Denied::ReviewFailed { why: why() },
            Denied::Busy,
            Denied::Saturated,
            Denied::HeadersTooLarge,
            Denied::TimedOut,
            Denied::Panicked,
        ];
        let counters = Counters::default();
        for denied in &all {
            counters.refused(denied);
        }
        assert_eq!(all.each_ref().map(Denied::label), Denied::LABELS);
        for word in Denied::LABELS {
            assert_eq!(counters.refusals(word), 1, "{word}");
        }
    }
}
