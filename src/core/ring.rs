//! The newest raw samples of one series: as many as late arrivals and
//! held readings need, no more.

use std::collections::VecDeque;

use super::batch::Sample;
use super::time::Timestamp;

/// A bounded run of samples, oldest first, times unique.
///
/// 16 bytes a sample; the capacity is fixed by the store (see
/// [`super::store`] for the bound).
#[derive(Clone, Debug, Default)]
pub struct Ring {
    samples: VecDeque<Sample>,
    /// Whether older samples were known and let go.
    forgot: bool,
}

impl Ring {
    /// The newest sample.
    #[must_use]
    pub fn newest(&self) -> Option<Sample> {
        self.samples.back().copied()
    }

    /// The oldest sample kept.
    #[must_use]
    pub fn oldest(&self) -> Option<Sample> {
        self.samples.front().copied()
    }

    /// Whether a sample of that time is kept, or may have been.
    #[must_use]
    pub fn knows(&self, at: Timestamp) -> bool {
        let older = self.oldest().is_some_and(|oldest| at < oldest.at);
        (older && self.forgot) || self.samples.iter().rev().any(|kept| kept.at == at)
    }

    /// All samples, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// How many samples are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether no sample is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Keeps the newest `capacity` of `samples`, which are sorted by time.
    pub fn replace(&mut self, samples: &[Sample], capacity: usize) {
        let start = samples.len().saturating_sub(capacity);
        self.forgot |= start > 0;
        self.samples.clear();
        if self.samples.capacity() < capacity {
            self.samples.reserve_exact(capacity);
        }
        self.samples.extend(&samples[start..]);
    }

    /// The newest sample at or before `at` that is younger than `fresh_ms`.
    #[must_use]
    pub fn reading(&self, at: Timestamp, fresh_ms: i64) -> Option<Sample> {
        reading(self.samples.iter().rev(), at, fresh_ms)
    }
}

/// The newest sample at or before `at` and younger than `fresh_ms`, out of
/// samples given newest first: PromQL's `X and (timestamp(X) > time() - F)`.
pub fn reading<'a>(
    newest_first: impl Iterator<Item = &'a Sample>,
    at: Timestamp,
    fresh_ms: i64,
) -> Option<Sample> {
    for sample in newest_first {
        if sample.at <= at {
            let fresh = sample.at.millis() > at.millis() - fresh_ms;
            return fresh.then_some(*sample);
        }
    }
    None
}
