//! Reviews by kube-apiserver: the user of a token (TokenReview) and the access of a user
//! (SubjectAccessReview).
//!
//! Answers are kept in a bounded cache for each kind of review; a second
//! request for the same waits for the same review (single flight). A review that
//! failed is not kept. Semaphores limit how many reviews run at a time: one for
//! TokenReviews, one for SubjectAccessReviews of the front proxy's users, one
//! for those of everybody else, so that a flood of tokens or of direct requests
//! cannot delay the HPA controller, whose requests come through the front proxy.
//!
//! A request waits for its permit itself; the review runs in a task that holds the
//! permit. So a client that disconnects cannot cancel a review, which would cost a
//! connection to kube-apiserver, and clients that reconnect cannot pile up tasks: there
//! are never more than permits.

mod cache;
mod permits;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::time::Instant;

use self::cache::{CacheLifetimes, ReviewCache};
use self::permits::ReviewPermits;
use super::counters::Counters;
use super::identity::{Identity, Via};
use super::reviewer::{Access, AccessVerdict, ReviewError, Reviewer, Token, TokenVerdict};
use super::settings::SecuritySettings;

/// The least size that an answer is counted as: the caches hold at most 32 768 tokens and
/// 8192 accesses.
const TOKEN_BYTES: usize = 1 << 10;
const ACCESS_BYTES: usize = 4 << 10;

/// Bytes of client-chosen text above which an answer is not cached (apiserver
/// `plugin/pkg/authorizer/webhook/webhook.go`).
const MAX_REMEMBERED: usize = 10_000;

/// Parallel SubjectAccessReviews of users behind the front proxy; more wait.
const PROXIED_REVIEWS: usize = 64;

/// The least time that a TokenReview, or a SubjectAccessReview of a direct client, holds its
/// permit. With the number of permits it bounds the reviews that clients can cause: at most
/// 160 tokens and 320 accesses a second. The reference sends at most 200 a second (apiserver
/// `pkg/server/options/{authentication,authorization}.go`, `QPS`).
const PERMIT_TIME: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) enum NoAnswer {
    /// No permit came free within the time limit.
    Busy,
    /// The review failed or took too long.
    Failed(ReviewError),
}

/// The SHA-256 of a token. Tokens are not kept.
type TokenDigest = Box<[u8]>;

/// The user and the access: an answer is for exactly this.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Question {
    who: Arc<Identity>,
    what: Access,
}

pub(super) struct Reviews {
    reviewer: Arc<dyn Reviewer>,
    tokens: ReviewCache<TokenDigest, TokenVerdict>,
    accesses: ReviewCache<Question, AccessVerdict>,
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
        Self {
            reviewer,
            tokens: ReviewCache::new(
                CacheLifetimes {
                    allowed: settings.token_life,
                    denied: settings.token_life,
                    is_allowed: |verdict| matches!(verdict, TokenVerdict::Authenticated(_)),
                },
                |_, verdict| match verdict {
                    TokenVerdict::Authenticated(identity) => identity.size().max(TOKEN_BYTES),
                    TokenVerdict::Refused(reason) => reason.len().max(TOKEN_BYTES),
                },
                settings.token_budget,
                counters.tokens.clone(),
            ),
            accesses: ReviewCache::new(
                CacheLifetimes {
                    allowed: settings.allowed_life,
                    denied: settings.denied_life,
                    is_allowed: |verdict| *verdict == AccessVerdict::Allowed,
                },
                |question, _| (question.who.size() + question.what.size()).max(ACCESS_BYTES),
                settings.access_budget,
                counters.accesses.clone(),
            ),
            token_permits: ReviewPermits::new(settings.token_reviews, PERMIT_TIME),
            proxied_permits: ReviewPermits::new(PROXIED_REVIEWS, Duration::ZERO),
            direct_permits: ReviewPermits::new(settings.direct_access_reviews, PERMIT_TIME),
        }
    }

    /// The user of a token; waits until `until`.
    pub(super) async fn token(
        &self,
        token: &Token,
        until: Instant,
    ) -> Result<TokenVerdict, NoAnswer> {
        let key: TokenDigest = digest(&SHA256, token.0.as_bytes()).as_ref().into();
        let (reviewer, token) = (self.reviewer.clone(), token.clone());
        let review = async move { reviewer.token(&token).await };
        let permits = &self.token_permits;
        self.tokens.get(Some(key), permits, until, review).await
    }

    /// Whether the user has the access; waits until `until`.
    pub(super) async fn access(
        &self,
        who: &Arc<Identity>,
        what: &Access,
        via: Via,
        until: Instant,
    ) -> Result<AccessVerdict, NoAnswer> {
        let question = Question {
            who: who.clone(),
            what: what.clone(),
        };
        let permits = match via {
            Via::FrontProxy => &self.proxied_permits,
            Via::Direct => &self.direct_permits,
        };
        let (reviewer, asked) = (self.reviewer.clone(), question.clone());
        let review = async move { reviewer.access(&asked.who, &asked.what).await };
        let key = (what.size() < MAX_REMEMBERED).then_some(question);
        self.accesses.get(key, permits, until, review).await
    }
}
