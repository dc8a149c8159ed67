//! Reviews by kube-apiserver: the user of a token (TokenReview) and the access of a user
//! (SubjectAccessReview).
//!
//! Each kind of review has a bounded cache for its answers. A second request for the same
//! review waits for the first (single flight). A failed review is not cached. Semaphores limit
//! the concurrent reviews: one for TokenReviews, one for SubjectAccessReviews of users behind
//! the front proxy, one for those of all other users. A flood of tokens or of direct requests
//! therefore cannot delay the HPA controller, whose requests come through the front proxy.
//!
//! The first request for a review waits for the permit itself, and the review runs in a task
//! that holds the permit. A client that disconnects therefore cannot cancel a review, which
//! would close a connection to kube-apiserver. Clients that reconnect cannot accumulate tasks:
//! there are never more tasks than permits.

mod cache;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;

use self::cache::{CacheLifetimes, ReviewCache, ReviewPermits};
use super::counters::Counters;
use super::identity::{Identity, Via};
use super::reviewer::{Access, AccessVerdict, ReviewError, Reviewer, TokenVerdict};
use super::settings::SecuritySettings;

/// Concurrent SubjectAccessReviews of users behind the front proxy. Further ones wait.
const PROXIED_REVIEWS: usize = 64;

/// The least time for which a TokenReview, or a SubjectAccessReview of a direct client,
/// holds its permit. With the default numbers of permits, clients can cause at most 160
/// TokenReviews and 320 SubjectAccessReviews per second. The reference sends at most 200
/// per second (apiserver `pkg/server/options/{authentication,authorization}.go`, `QPS`).
const PERMIT_TIME: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(super) enum NoAnswer {
    /// No permit became free within the time limit.
    Busy,
    /// The review failed or took too long.
    Failed(ReviewError),
}

impl NoAnswer {
    fn failed(why: &str) -> Self {
        Self::Failed(ReviewError(why.to_owned()))
    }
}

/// The SHA-256 of a token. Tokens are not kept.
type TokenDigest = Box<[u8]>;

/// The user and the access: the key of a cached answer.
type AccessKey = (Identity, Access);

pub(super) struct Reviews {
    reviewer: Arc<dyn Reviewer>,
    tokens: ReviewCache<TokenDigest, Identity>,
    accesses: ReviewCache<AccessKey, ()>,
    token_permits: ReviewPermits,
    proxied_permits: ReviewPermits,
    direct_permits: ReviewPermits,
}

impl Reviews {
    pub(super) fn new(
        reviewer: Arc<dyn Reviewer>,
        settings: &SecuritySettings,
        counters: &Arc<Counters>,
    ) -> Self {
        let lives_of_tokens = CacheLifetimes {
            allowed: settings.token_life,
            denied: settings.token_life,
        };
        let lives_of_accesses = CacheLifetimes {
            allowed: settings.allowed_life,
            denied: settings.denied_life,
        };
        Self {
            reviewer,
            tokens: ReviewCache::new(lives_of_tokens, settings.token_budget, &counters.tokens),
            accesses: ReviewCache::new(
                lives_of_accesses,
                settings.access_budget,
                &counters.accesses,
            ),
            token_permits: ReviewPermits::new(settings.token_reviews, PERMIT_TIME),
            proxied_permits: ReviewPermits::new(PROXIED_REVIEWS, Duration::ZERO),
            direct_permits: ReviewPermits::new(settings.direct_access_reviews, PERMIT_TIME),
        }
    }

    /// The user of a token. Waits at most until `until`.
    pub(super) async fn token(
        &self,
        token: &SecretString,
        until: Instant,
    ) -> Result<TokenVerdict, NoAnswer> {
        let key: TokenDigest = digest(&SHA256, token.expose_secret().as_bytes())
            .as_ref()
            .into();
        let (reviewer, token) = (self.reviewer.clone(), token.clone());
        let review = async move { reviewer.token(&token).await };
        let permits = &self.token_permits;
        self.tokens.get(key, permits, until, review).await
    }

    /// Whether the user has the access. Waits at most until `until`.
    pub(super) async fn access(
        &self,
        who: &Arc<Identity>,
        what: &Access,
        via: Via,
        until: Instant,
    ) -> Result<AccessVerdict, NoAnswer> {
        let key = (Identity::clone(who), what.clone());
        let permits = match via {
            Via::FrontProxy => &self.proxied_permits,
            Via::Direct => &self.direct_permits,
        };
        let (reviewer, who, what) = (self.reviewer.clone(), Arc::clone(who), what.clone());
        let review = async move { reviewer.access(&who, &what).await };
        self.accesses.get(key, permits, until, review).await
    }
}
