//! Counters of the security layers, which telemetry reads. Their label values are a closed
//! set, so that clients cannot add series.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

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
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    /// The number of requests refused for a reason, which is one of [`Refusal::LABELS`].
    pub fn refusals(&self, word: &str) -> u64 {
        self.refused.lock().get(word).copied().unwrap_or(0)
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        if let Some(label) = refusal.label() {
            *self.refused.lock().entry(label).or_default() += 1;
        }
    }
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
