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

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use tokio::time::Instant;

use self::cache::{CacheLifetimes, ReviewCache};
use self::permits::ReviewPermits;
use super::counters::{Counters, ReviewCounts};
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

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// No permit came free within the time limit.
    Busy,
    /// The review failed or took too long.
    Failed(ReviewError),
}

/// The HMAC-SHA-256 of a token, with a key that lives as long as the process. Tokens are
/// not kept.
type TokenDigest = [u8; 32];

/// The user and the access: an answer is for exactly this.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Question {
    who: Arc<Identity>,
    what: Access,
}

/// Reviews tokens and accesses, and caches the answers.
pub(super) struct Reviews {
    reviewer: Arc<dyn Reviewer>,
    audiences: Arc<[String]>,
    digest_key: Option<hmac::Key>,
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
        let least = settings.permit_time;
        Self {
            reviewer,
            audiences: settings.audiences.as_slice().into(),
            digest_key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok(),
            tokens: token_cache(settings, counters.tokens.clone()),
            accesses: access_cache(settings, counters.accesses.clone()),
            token_permits: ReviewPermits::new(settings.token_reviews, least),
            proxied_permits: ReviewPermits::new(settings.proxied_access_reviews, Duration::ZERO),
            direct_permits: ReviewPermits::new(settings.direct_access_reviews, least),
        }
    }

    /// The user of a token; waits until `until`.
    pub(super) async fn token(
        &self,
        token: &Token,
        until: Instant,
    ) -> Result<TokenVerdict, NoAnswer> {
        let key = self.digest(token).map_err(NoAnswer::Failed)?;
        let (reviewer, audiences) = (self.reviewer.clone(), self.audiences.clone());
        let token = token.clone();
        let review = async move { reviewer.token(&token, &audiences).await };
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

    fn digest(&self, token: &Token) -> Result<TokenDigest, ReviewError> {
        let key = self.digest_key.as_ref();
        let digest = key.map(|key| hmac::sign(key, token.0.as_bytes()));
        let digest = digest.and_then(|digest| digest.as_ref().try_into().ok());
        digest.ok_or_else(|| ReviewError("the system gives no random numbers".to_owned()))
    }
}

fn token_cache(
    settings: &SecuritySettings,
    counts: Arc<ReviewCounts>,
) -> ReviewCache<TokenDigest, TokenVerdict> {
    let lifetimes = CacheLifetimes {
        allowed: settings.token_life,
        denied: settings.token_life,
        is_allowed: |verdict| matches!(verdict, TokenVerdict::Authenticated(_)),
    };
    let bytes = |_: &TokenDigest, verdict: &TokenVerdict| match verdict {
        TokenVerdict::Authenticated(identity) => identity.size().max(TOKEN_BYTES),
        TokenVerdict::Refused(reason) => reason.len().max(TOKEN_BYTES),
    };
    ReviewCache::new(lifetimes, bytes, settings.token_budget, counts)
}

fn access_cache(
    settings: &SecuritySettings,
    counts: Arc<ReviewCounts>,
) -> ReviewCache<Question, AccessVerdict> {
    let lifetimes = CacheLifetimes {
        allowed: settings.allowed_life,
        denied: settings.denied_life,
        is_allowed: |verdict| *verdict == AccessVerdict::Allowed,
    };
    let bytes = |question: &Question, _: &AccessVerdict| {
        (question.who.size() + question.what.size()).max(ACCESS_BYTES)
    };
    ReviewCache::new(lifetimes, bytes, settings.access_budget, counts)
}
