//! The answers to one kind of review, cached in bounded memory.

use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use moka::Expiry;
use moka::future::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::NoAnswer;
use crate::security::counters::{ReviewCounts, add};
use crate::security::reviewer::ReviewError;

const CACHE_BYTES: u64 = 32 << 20;

/// The size in bytes that an answer counts for in addition to its text.
const ENTRY_BYTES: usize = 2 << 10;

/// Limits how many reviews run at a time, and how many begin per second.
pub(super) struct ReviewPermits {
    semaphore: Arc<Semaphore>,
    least: Duration,
}

/// The right to run one review.
struct ReviewPermit {
    held: OwnedSemaphorePermit,
    /// The earliest time at which another review may have the permit.
    until: Instant,
}

impl ReviewPermits {
    /// Each review holds its permit for at least `least`, so that at most `count / least`
    /// reviews begin per second.
    pub(super) fn new(count: usize, least: Duration) -> Self {
        let semaphore = Arc::new(Semaphore::new(count));
        Self { semaphore, least }
    }

    async fn take(&self, until: Instant) -> Result<ReviewPermit, NoAnswer> {
        let permit = timeout_at(until, Arc::clone(&self.semaphore).acquire_owned());
        let held = permit.await.ok().and_then(Result::ok);
        Ok(ReviewPermit {
            held: held.ok_or(NoAnswer::Busy)?,
            until: Instant::now() + self.least,
        })
    }
}

impl ReviewPermit {
    fn release(self) {
        tokio::spawn(async move {
            sleep_until(self.until).await;
            drop(self.held);
        });
    }
}

pub(super) struct CacheLifetimes<V> {
    pub(super) allowed: Duration,
    pub(super) denied: Duration,
    pub(super) is_allowed: fn(&V) -> bool,
}

impl<V> CacheLifetimes<V> {
    fn of(&self, value: &V) -> Option<Duration> {
        let allowed = (self.is_allowed)(value);
        Some(if allowed { self.allowed } else { self.denied })
    }
}

impl<K, V> Expiry<K, V> for CacheLifetimes<V> {
    fn expire_after_create(&self, _: &K, value: &V, _: StdInstant) -> Option<Duration> {
        self.of(value)
    }

    /// The default would keep the expiry of the answer that is replaced.
    fn expire_after_update(
        &self,
        _: &K,
        value: &V,
        _: StdInstant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.of(value)
    }
}

/// The answers to one kind of review. Clones share the cache.
#[derive(Clone)]
pub(super) struct ReviewCache<K, V> {
    answers: Cache<K, V>,
    is_allowed: fn(&V) -> bool,
    budget: Duration,
    counts: Arc<ReviewCounts>,
}

impl<K, V> ReviewCache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(
        lifetimes: CacheLifetimes<V>,
        bytes: fn(&K, &V) -> usize,
        budget: Duration,
        counts: Arc<ReviewCounts>,
    ) -> Self {
        let is_allowed = lifetimes.is_allowed;
        let answers = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(move |key, value| {
                u32::try_from(ENTRY_BYTES + bytes(key, value)).unwrap_or(u32::MAX)
            })
            .expire_after(lifetimes)
            .build();
        Self {
            answers,
            is_allowed,
            budget,
            counts,
        }
    }

    /// Returns the cached answer, or else reviews. A request that finds the same review under
    /// way waits for it and needs no permit. The review continues even if no request waits for
    /// it any more.
    pub(super) async fn get(
        &self,
        key: K,
        permits: &ReviewPermits,
        until: Instant,
        review: impl Future<Output = Result<V, ReviewError>> + Send + 'static,
    ) -> Result<V, NoAnswer> {
        if let Some(known) = self.answers.get(&key).await {
            add(&self.counts.hits);
            return Ok(known);
        }
        add(&self.counts.misses);
        let now = Instant::now();
        // Half of the time is for the permit, the other half for the review.
        let time = self.budget.min(until.saturating_duration_since(now));
        let (permit_until, review_until) = (now + time / 2, now + self.budget);
        let shared = self.answers.try_get_with(key.clone(), async {
            let permit = permits.take(permit_until).await?;
            let review = self.clone().review(key, permit, review_until, review);
            match tokio::spawn(review).await {
                Ok(answer) => answer.map_err(NoAnswer::Failed),
                Err(_) => Err(NoAnswer::failed("the review was interrupted")),
            }
        });
        match timeout_at(until, shared).await {
            Ok(answer) => answer.map_err(|error| NoAnswer::clone(&error)),
            Err(_) => Err(NoAnswer::failed("no answer in time")),
        }
    }
    /// Reviews while it holds `permit`, and caches the answer.
    async fn review(
        self,
        key: K,
        permit: ReviewPermit,
        until: Instant,
        review: impl Future<Output = Result<V, ReviewError>>,
    ) -> Result<V, ReviewError> {
        let in_time = timeout_at(until, review).await;
        permit.release();
        let answer = in_time.unwrap_or_else(|_| Err(ReviewError("no answer in time".into())));
        self.count(&answer);
        if let Ok(value) = &answer {
            self.answers.insert(key, value.clone()).await;
        }
        answer
    }

    fn count(&self, answer: &Result<V, ReviewError>) {
        add(match answer {
            Ok(value) if (self.is_allowed)(value) => &self.counts.allowed,
            Ok(_) => &self.counts.refused,
            Err(_) => &self.counts.failed,
        });
    }
}
