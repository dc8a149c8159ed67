//! The answers to one kind of review, cached in bounded memory.

use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use moka::Expiry;
use moka::future::Cache;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::NoAnswer;
use crate::security::counters::{ReviewCounts, add};
use crate::security::reviewer::{ReviewError, Verdict};

const CACHE_BYTES: u64 = 32 << 20;

/// The size in bytes that an answer counts for in addition to its text.
const ENTRY_BYTES: usize = 2 << 10;

/// Limits how many reviews run at a time, and how many begin per second.
pub(super) struct ReviewPermits {
    semaphore: Arc<Semaphore>,
    /// The least time for which a review holds its permit, so that at most `count / least`
    /// reviews begin per second.
    least: Duration,
}

impl ReviewPermits {
    pub(super) fn new(count: usize, least: Duration) -> Self {
        let semaphore = Arc::new(Semaphore::new(count));
        Self { semaphore, least }
    }
}

/// How long answers are cached.
pub(super) struct CacheLifetimes {
    pub(super) allowed: Duration,
    pub(super) denied: Duration,
}

impl CacheLifetimes {
    const fn of<T>(&self, verdict: &Verdict<T>) -> Option<Duration> {
        Some(match verdict {
            Verdict::Allowed(_) => self.allowed,
            Verdict::Refused(_) => self.denied,
        })
    }
}

impl<K, T> Expiry<K, Verdict<T>> for CacheLifetimes {
    fn expire_after_create(&self, _: &K, verdict: &Verdict<T>, _: StdInstant) -> Option<Duration> {
        self.of(verdict)
    }

    /// The default would keep the expiry of the answer that is replaced.
    fn expire_after_update(
        &self,
        _: &K,
        verdict: &Verdict<T>,
        _: StdInstant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.of(verdict)
    }
}

/// The answers to one kind of review. Clones share the cache.
#[derive(Clone)]
pub(super) struct ReviewCache<K, T> {
    answers: Cache<K, Verdict<T>>,
    /// The time limit of a review.
    budget: Duration,
    counts: Arc<ReviewCounts>,
}

impl<K, T> ReviewCache<K, T>
where
    K: Hash + Eq + Clone + Serialize + Send + Sync + 'static,
    T: Clone + Serialize + Send + Sync + 'static,
{
    pub(super) fn new(lives: CacheLifetimes, budget: Duration, counts: &Arc<ReviewCounts>) -> Self {
        let bytes = |key: &K, verdict: &Verdict<T>| {
            let text = serde_json::to_vec(&(key, verdict)).unwrap_or_default();
            u32::try_from(ENTRY_BYTES + text.len()).unwrap_or(u32::MAX)
        };
        let answers = Cache::builder().max_capacity(CACHE_BYTES).weigher(bytes);
        Self {
            answers: answers.expire_after(lives).build(),
            budget,
            counts: Arc::clone(counts),
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
        review: impl Future<Output = Result<Verdict<T>, ReviewError>> + Send + 'static,
    ) -> Result<Verdict<T>, NoAnswer> {
        if let Some(known) = self.answers.get(&key).await {
            add(&self.counts.hits);
            return Ok(known);
        }
        add(&self.counts.misses);
        let now = Instant::now();
        // Half of the time is for the permit, the other half for the review.
        let time = self.budget.min(until.saturating_duration_since(now));
        let shared = self.answers.try_get_with(key.clone(), async {
            let permit = Arc::clone(&permits.semaphore).acquire_owned();
            let permit = timeout_at(now + time / 2, permit).await;
            let permit = permit.ok().and_then(Result::ok).ok_or(NoAnswer::Busy)?;
            let held_until = Instant::now() + permits.least;
            let review = self.clone().review(key, now + self.budget, review);
            let review = tokio::spawn(async move {
                let answer = review.await;
                tokio::spawn(release_at(held_until, permit));
                answer
            });
            match review.await {
                Ok(answer) => answer.map_err(NoAnswer::Failed),
                Err(_) => Err(NoAnswer::failed("the review was interrupted")),
            }
        });
        match timeout_at(until, shared).await {
            Ok(answer) => answer.map_err(|error| NoAnswer::clone(&error)),
            Err(_) => Err(NoAnswer::failed("no answer in time")),
        }
    }

    /// Reviews, and caches the answer.
    async fn review(
        self,
        key: K,
        until: Instant,
        review: impl Future<Output = Result<Verdict<T>, ReviewError>>,
    ) -> Result<Verdict<T>, ReviewError> {
        let answer = timeout_at(until, review).await;
        let answer = answer.unwrap_or_else(|_| Err(ReviewError("no answer in time".into())));
        add(match &answer {
            Ok(Verdict::Allowed(_)) => &self.counts.allowed,
            Ok(Verdict::Refused(_)) => &self.counts.refused,
            Err(_) => &self.counts.failed,
        });
        if let Ok(verdict) = &answer {
            self.answers.insert(key, verdict.clone()).await;
        }
        answer
    }
}

async fn release_at(time: Instant, permit: OwnedSemaphorePermit) {
    sleep_until(time).await;
    drop(permit);
}
