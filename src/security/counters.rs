//! What is counted: plain numbers that telemetry reads. None of them has a
//! label that a client could invent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::denied::DeniedKind;

/// Reviews of one kind.
#[derive(Debug, Default)]
pub struct ReviewCounts {
    /// Answered yes.
    pub yes: AtomicU64,
    /// Answered no.
    pub no: AtomicU64,
    /// Not answered, or not in time.
    pub failed: AtomicU64,
    /// Not asked: the answer was remembered.
    pub hits: AtomicU64,
    /// Not remembered: asked, or waited for the same review.
    pub misses: AtomicU64,
}

/// Everything that is counted here.
#[derive(Debug, Default)]
pub struct Counters {
    /// TokenReviews.
    pub tokens: Arc<ReviewCounts>,
    /// SubjectAccessReviews.
    pub accesses: Arc<ReviewCounts>,
    refused: [AtomicU64; DeniedKind::ALL.len()],
}

impl Counters {
    /// How many requests ended so.
    #[must_use]
    pub fn refusals(&self, kind: DeniedKind) -> u64 {
        self.refused
            .get(kind as usize)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// A request ended so.
    pub fn refused(&self, kind: DeniedKind) {
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
