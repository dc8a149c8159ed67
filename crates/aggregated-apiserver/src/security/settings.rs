//! Limits and times of the security layers.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use super::always_allowed::AlwaysAllowed;
use super::reviewer::Access;

/// Limits and times.
#[derive(Clone, Debug)]
pub struct SecuritySettings {
    /// The audiences that a token must be for; empty: the API server itself.
    pub audiences: Vec<String>,
    /// How long the result of a TokenReview is cached.
    pub token_life: Duration,
    /// The time limit of a TokenReview.
    pub token_budget: Duration,
    /// Parallel TokenReviews; more wait.
    pub token_reviews: usize,
    /// How long an allowed access is cached.
    pub allowed_life: Duration,
    /// How long a refusal is remembered. Shorter, because a right that was just granted
    /// takes effect after it.
    pub denied_life: Duration,
    /// Paths that need no SubjectAccessReview.
    pub always_allowed: AlwaysAllowed,
    /// The time limit of a SubjectAccessReview.
    pub access_budget: Duration,
    /// SubjectAccessReviews at a time of users behind the front proxy;
    /// more wait.
    pub proxied_access_reviews: usize,
    /// Parallel SubjectAccessReviews of other users; more wait.
    pub direct_access_reviews: usize,
    /// The least time that a TokenReview, or a SubjectAccessReview of a direct client,
    /// holds its permit. With the number of permits it bounds the reviews that clients
    /// can cause: at most 160 tokens and 320 accesses a second. The reference sends at
    /// most 200 a second (apiserver
    /// `pkg/server/options/{authentication,authorization}.go`, `QPS`).
    pub permit_time: Duration,
    /// Requests in flight for values, of the front proxy's users.
    pub values_in_flight: usize,
    /// Requests in flight for values that are fetched, of the front proxy's users, for each
    /// backend; half of them for one user. Further backends share [`Self::values_in_flight`].
    pub fetched_in_flight: Vec<usize>,
    /// Requests in flight for discovery, of the front proxy's users; they must not wait
    /// behind values.
    pub discovery_in_flight: usize,
    /// Requests at a time of users with direct connections.
    pub direct_in_flight: usize,
    /// Requests in flight of anonymous clients.
    pub anonymous_in_flight: usize,
    /// The time limit of a request for values.
    pub values_time: Duration,
    /// The time limit of any other request.
    pub other_time: Duration,
    /// Most header lines of a request: each group of a user is one.
    pub header_lines: usize,
    /// Most bytes of header names and values, with 32 more for each line as HTTP/2
    /// counts.
    pub header_bytes: usize,
    /// Audit lines in a second, for each verdict.
    pub audit_lines: u64,
}

impl Default for SecuritySettings {
    fn default() -> Self {
        Self {
            audiences: Vec::new(),
            token_life: Duration::from_secs(10),
            token_budget: Duration::from_secs(4),
            token_reviews: 16,
            allowed_life: Duration::from_secs(10),
            denied_life: Duration::from_secs(5),
            always_allowed: AlwaysAllowed::default(),
            access_budget: Duration::from_secs(5),
            proxied_access_reviews: 64,
            direct_access_reviews: 32,
            permit_time: Duration::from_millis(100),
            values_in_flight: 400,
            fetched_in_flight: Vec::new(),
            discovery_in_flight: 128,
            direct_in_flight: 100,
            anonymous_in_flight: 16,
            values_time: Duration::from_secs(10),
            other_time: Duration::from_secs(2),
            header_lines: 1024,
            header_bytes: 256 * 1024,
            audit_lines: 50,
        }
    }
}

impl SecuritySettings {
    pub(crate) fn time_limit(&self, access: &Access) -> Duration {
        match access {
            Access::Resource { .. } => self.values_time,
            Access::NonResource { .. } => self.other_time,
        }
    }

    /// Until when reviews must have ended. The rest of the time is for the answer of a
    /// request whose review did not end.
    pub fn review_until(&self, access: &Access, began: Instant) -> Instant {
        began + self.time_limit(access) * 9 / 10
    }

    /// Whether the header is within the limits; its bytes are counted as in RFC 9113
    /// §6.5.2.
    pub(crate) fn head_fits(&self, headers: &HeaderMap) -> bool {
        let bytes = headers.iter().fold(0, |sum, (name, value)| {
            sum + name.as_str().len() + value.len() + 32
        });
        headers.len() <= self.header_lines && bytes <= self.header_bytes
    }
}
