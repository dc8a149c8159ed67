//! Counters of the security layers, which telemetry reads. Their labels are closed sets,
//! independent of clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::denied::DeniedKind;

/// Counts of one kind of review.
#[derive(Debug, Default)]
pub struct ReviewCounts {
    /// Allowed.
    pub yes: AtomicU64,
    /// Refused.
    pub no: AtomicU64,
    /// Failed or timed out.
    pub failed: AtomicU64,
    /// Answered from the cache.
    pub hits: AtomicU64,
    /// Not in the cache: reviewed, or joined to the same review under way.
    pub misses: AtomicU64,
}

/// All counters.
#[derive(Debug, Default)]
pub struct Counters {
    /// TokenReviews.
    pub tokens: Arc<ReviewCounts>,
    /// SubjectAccessReviews.
    pub accesses: Arc<ReviewCounts>,
    refused: [AtomicU64; DeniedKind::ALL.len()],
}

impl Counters {
    /// The number of requests refused for this reason.
    #[must_use]
    pub fn refusals(&self, kind: DeniedKind) -> u64 {
        self.refused
            .get(kind as usize)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Counts a refused request.
    pub(crate) fn refused(&self, kind: DeniedKind) {
        if let Some(count) = self.refused.get(kind as usize) {
            add(count);
        }
    }
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_counter_of_its_own() {
        let counters = Counters::default();
        for kind in DeniedKind::ALL {
            counters.refused(kind);
        }
        for kind in DeniedKind::ALL {
            assert_eq!(counters.refusals(kind), 1, "{}", kind.word());
        }
    }
}
