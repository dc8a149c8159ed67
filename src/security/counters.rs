//! What is counted: plain numbers that telemetry reads. None of them has a
//! label that a client could invent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::denied::Verdict;

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
    refused: [AtomicU64; Verdict::ALL.len()],
}

impl Counters {
    /// How many requests ended so.
    #[must_use]
    pub fn refusals(&self, verdict: Verdict) -> u64 {
        self.refused
            .get(verdict as usize)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// A request ended so.
    pub fn refused(&self, verdict: Verdict) {
        if let Some(count) = self.refused.get(verdict as usize) {
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
    fn every_verdict_has_a_counter_of_its_own() {
        let counters = Counters::default();
        for &verdict in Verdict::ALL {
            counters.refused(verdict);
        }
        for &verdict in Verdict::ALL {
            assert_eq!(counters.refusals(verdict), 1, "{}", verdict.word());
        }
    }
}
