//! Counters of the security layers, which telemetry reads. Their label values are a closed
//! set, so that clients cannot add series.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::Refusal;

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
    /// In the order of [`Refusal::LABELS`].
    refused: [AtomicU64; Refusal::LABELS.len()],
}

impl Counters {
    /// The requests refused for a reason, which is one of [`Refusal::LABELS`].
    pub fn refusals(&self, label: &str) -> u64 {
        let count = self.refused(label);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self, refusal: &Refusal) {
        if let Some(count) = refusal.label().and_then(|label| self.refused(label)) {
            add(count);
        }
    }

    fn refused(&self, label: &str) -> Option<&AtomicU64> {
        let mut counts = Refusal::LABELS.iter().zip(&self.refused);
        counts.find_map(|(known, count)| (*known == label).then_some(count))
    }
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
