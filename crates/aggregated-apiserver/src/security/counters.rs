//! Counters of the reviews, which telemetry reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one kind of review.
#[derive(Debug, Default)]
pub struct ReviewCounts {
    /// Allowed.
    pub allowed: AtomicU64,
    /// Refused.
    pub refused: AtomicU64,
    /// Failed or timed out.
    pub failed: AtomicU64,
}

/// The counters of both kinds of review.
#[derive(Debug, Default)]
pub struct Counters {
    /// TokenReviews.
    pub tokens: Arc<ReviewCounts>,
    /// SubjectAccessReviews.
    pub accesses: Arc<ReviewCounts>,
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
