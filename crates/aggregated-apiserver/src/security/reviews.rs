//! Reviews by kube-apiserver: the user of a token (TokenReview) and the access of a user
//! (SubjectAccessReview).
//!
//! Each kind of review has a cache for its answers. A second request for the same review waits
//! for the first (single flight). A failed review is not cached. Semaphores limit the concurrent
//! reviews: one for TokenReviews, one for SubjectAccessReviews of users behind the front proxy,
//! one for those of all other users. A flood of tokens or of direct requests therefore cannot
//! delay the HPA controller, whose requests come through the front proxy.

use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use aws_lc_rs::digest::{SHA256, digest};
use moka::Expiry;
use moka::future::Cache;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::counters::{Counters, ReviewCounts, add};
use super::identity::{Identity, User, Via};
use super::reviewer::{Access, AccessVerdict, Reviewer, TokenVerdict, Verdict};
use super::settings::SecuritySettings;
use crate::refusal::Refusal;

/// Concurrent SubjectAccessReviews of users behind the front proxy. Further ones wait.
const PROXIED_REVIEWS: usize = 64;

/// The most cached answers of one kind. An answer for an anonymous client has at most 3 KiB.
const MOST_ANSWERS: u64 = 2048;

/// The SHA-256 of a token. Tokens are not kept.
type TokenDigest = Box<[u8]>;

/// The user and the access: the key of a cached answer.
type AccessKey = (Arc<Identity>, Access);

pub(super) struct Reviews {
    reviewer: Arc<dyn Reviewer>,
    tokens: ReviewCache<TokenDigest, Identity>,
    accesses: ReviewCache<AccessKey, ()>,
    token_permits: Semaphore,
    proxied_permits: Semaphore,
    direct_permits: Semaphore,
}

impl Reviews {
    pub(super) fn new(
        reviewer: Arc<dyn Reviewer>,
        settings: &SecuritySettings,
        counters: &Counters,
    ) -> Self {
        let of_tokens = CacheLifetimes {
            allowed: settings.token_life,
            denied: settings.token_life,
        };
        let of_accesses = CacheLifetimes {
            allowed: settings.allowed_life,
            denied: settings.denied_life,
        };
        Self {
            reviewer,
            tokens: ReviewCache::new(of_tokens, settings.token_budget, &counters.tokens),
            accesses: ReviewCache::new(of_accesses, settings.access_budget, &counters.accesses),
            token_permits: Semaphore::new(settings.token_reviews),
            proxied_permits: Semaphore::new(PROXIED_REVIEWS),
            direct_permits: Semaphore::new(settings.direct_access_reviews),
        }
    }

    /// The user of a token. Waits at most until `until`.
    ///
    /// # Errors
    /// [`Refusal::Busy`] and [`Refusal::ReviewFailed`].
    pub(super) async fn token(
        &self,
        token: &SecretString,
        until: Instant,
    ) -> Result<TokenVerdict, Refusal> {
        let key = digest(&SHA256, token.expose_secret().as_bytes());
        let review = self.reviewer.token(token);
        let permits = &self.token_permits;
        self.tokens
            .get(key.as_ref().into(), permits, until, review)
            .await
    }

    /// Whether the user has the access. Waits at most until `until`.
    ///
    /// # Errors
    /// [`Refusal::Busy`] and [`Refusal::ReviewFailed`].
    pub(super) async fn access(
        &self,
        user: &User,
        what: &Access,
        until: Instant,
    ) -> Result<AccessVerdict, Refusal> {
        let permits = match user.via {
            Via::FrontProxy => &self.proxied_permits,
            Via::Direct => &self.direct_permits,
        };
        let key = (Arc::clone(&user.identity), what.clone());
        let review = self.reviewer.access(&user.identity, what);
        self.accesses.get(key, permits, until, review).await
    }
}

/// How long answers are cached.
struct CacheLifetimes {
    allowed: Duration,
    denied: Duration,
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

/// The answers to one kind of review.
struct ReviewCache<K, T> {
    answers: Cache<K, Verdict<T>>,
    /// The time limit of a review.
    budget: Duration,
    counts: Arc<ReviewCounts>,
}

impl<K, T> ReviewCache<K, T>
where
    K: Hash + Eq + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    fn new(lives: CacheLifetimes, budget: Duration, counts: &Arc<ReviewCounts>) -> Self {
        let answers = Cache::builder().max_capacity(MOST_ANSWERS);
        Self {
            answers: answers.expire_after(lives).build(),
            budget,
            counts: Arc::clone(counts),
        }
    }

    /// Returns the cached answer, or else reviews. A request that finds the same review under
    /// way waits for it and needs no permit.
    async fn get(
        &self,
        key: K,
        permits: &Semaphore,
        until: Instant,
        review: impl Future<Output = Result<Verdict<T>, String>> + Send,
    ) -> Result<Verdict<T>, Refusal> {
        let now = Instant::now();
        let until = until.min(now + self.budget);
        // Half of the time is for the permit, the other half for the review.
        let half = now + until.saturating_duration_since(now) / 2;
        let late = |_| Refusal::ReviewFailed {
            why: "no answer in time".to_owned(),
        };
        let first = async {
            let permit = timeout_at(half, permits.acquire()).await;
            let _permit = permit.ok().and_then(Result::ok).ok_or(Refusal::Busy)?;
            let answer = timeout_at(until, review).await.map_err(late);
            let answer =
                answer.and_then(|answer| answer.map_err(|why| Refusal::ReviewFailed { why }));
            add(match &answer {
                Ok(Verdict::Allowed(_)) => &self.counts.allowed,
                Ok(Verdict::Refused(_)) => &self.counts.refused,
                Err(_) => &self.counts.failed,
            });
            answer
        };
        let shared = timeout_at(until, self.answers.try_get_with(key, first)).await;
        let answer = shared.map_err(late)?;
        answer.map_err(|refusal| Refusal::clone(&refusal))
    }
}
