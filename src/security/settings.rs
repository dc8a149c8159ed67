//! The numbers of the security layers.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use super::rate::Rate;
use super::reviewer::Access;

/// Limits and times (docs/security.md, "Limits").
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whom a token must be meant for; none: the API server itself.
    pub audiences: Vec<String>,
    /// How long what a review said of a token is remembered.
    pub token_life: Duration,
    /// For a TokenReview.
    pub token_budget: Duration,
    /// TokenReviews at a time; more wait.
    pub token_reviews: usize,
    /// Requests that wait for a TokenReview of a token that was not good before;
    /// more are refused.
    pub token_waiting: usize,
    /// Of them, those of one address: a client cannot take all places.
    pub address_waiting: usize,
    /// Tokens of one address under review that were not good before.
    pub address_tokens: usize,
    /// How long a yes is remembered.
    pub allowed_life: Duration,
    /// How long a no is remembered. Shorter: who was just given a right waits
    /// for it.
    pub denied_life: Duration,
    /// For a SubjectAccessReview.
    pub access_budget: Duration,
    /// SubjectAccessReviews at a time; more wait.
    pub access_reviews: usize,
    /// SubjectAccessReviews at a time, those that wait included; more are
    /// refused.
    pub access_waiting: usize,
    /// Of them, those of one user who asks directly.
    pub user_reviews: usize,
    /// Of them, those of one user who comes through the front proxy, which has
    /// a fairness of its own.
    pub proxied_user_reviews: usize,
    /// How often each kind of review is asked (apiserver
    /// `pkg/server/options/{authentication,authorization}.go`, `QPS`).
    pub review_rate: Rate,
    /// Requests at a time for values.
    pub values_in_flight: usize,
    /// Requests at a time for discovery, which must not wait behind values.
    pub discovery_in_flight: usize,
    /// Requests at a time of one user who asks directly.
    pub user_in_flight: usize,
    /// Requests at a time of one user who comes through the front proxy.
    pub proxied_user_in_flight: usize,
    /// Requests at a time by nobody in particular.
    pub anonymous_in_flight: usize,
    /// For a request for values.
    pub values_time: Duration,
    /// For any other request.
    pub other_time: Duration,
    /// Header lines of a request: each group of a user is one.
    pub header_lines: usize,
    /// Bytes of header names and values, 32 more for each line as HTTP/2 counts.
    pub header_bytes: usize,
    /// Lines of the audit, for each verdict.
    pub audit_rate: Rate,
    /// How often it is said how many lines were left out.
    pub audit_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            audiences: Vec::new(),
            token_life: Duration::from_secs(10),
            token_budget: Duration::from_secs(4),
            token_reviews: 16,
            token_waiting: 256,
            address_waiting: 32,
            address_tokens: 8,
            allowed_life: Duration::from_secs(10),
            denied_life: Duration::from_secs(5),
            access_budget: Duration::from_secs(5),
            access_reviews: 64,
            access_waiting: 512,
            user_reviews: 16,
            proxied_user_reviews: 32,
            review_rate: Rate {
                per_second: 200,
                burst: 400,
            },
            values_in_flight: 400,
            discovery_in_flight: 128,
            user_in_flight: 32,
            proxied_user_in_flight: 128,
            anonymous_in_flight: 16,
            values_time: Duration::from_secs(10),
            other_time: Duration::from_secs(2),
            header_lines: 1024,
            header_bytes: 256 * 1024,
            audit_rate: Rate {
                per_second: 50,
                burst: 200,
            },
            audit_every: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// How long a request may take.
    #[must_use]
    pub fn time_limit(&self, access: &Access) -> Duration {
        match access {
            Access::Resource { .. } => self.values_time,
            Access::NonResource { .. } => self.other_time,
        }
    }

    /// Until when reviews must have ended: who waits for one in vain has time
    /// left to be told so.
    #[must_use]
    pub fn review_until(&self, access: &Access, began: Instant) -> Instant {
        began + self.time_limit(access) * 9 / 10
    }

    /// Whether a head is within the limits; its bytes are counted as in RFC 9113
    /// §6.5.2.
    #[must_use]
    pub fn head_fits(&self, headers: &HeaderMap) -> bool {
        let bytes = headers.iter().fold(0, |sum, (name, value)| {
            sum + name.as_str().len() + value.len() + 32
        });
        headers.len() <= self.header_lines && bytes <= self.header_bytes
    }
}
