//! Limits and times of the security layers.

use std::time::Duration;

use tokio::time::Instant;

use super::always_allowed::AlwaysAllowed;
use super::reviewer::Access;

/// Limits and times.
#[derive(Clone, Debug)]
pub struct SecuritySettings {
    /// How long the result of a TokenReview is cached.
    pub token_life: Duration,
    /// The time limit of a TokenReview.
    pub token_budget: Duration,
    /// Concurrent TokenReviews. Further ones wait.
    pub token_reviews: usize,
    /// How long an allowed access is cached.
    pub allowed_life: Duration,
    /// How long a refused access is cached. It is shorter, because a newly granted
    /// permission takes effect only afterwards.
    pub denied_life: Duration,
    /// Paths that need no SubjectAccessReview.
    pub always_allowed: AlwaysAllowed,
    /// The time limit of a SubjectAccessReview.
    pub access_budget: Duration,
    /// Concurrent SubjectAccessReviews of users with direct connections. Further ones wait.
    pub direct_access_reviews: usize,
    /// Requests in flight for values, of the front proxy's users. One user may have half of
    /// this and of each of the following numbers.
    pub values_in_flight: usize,
    /// For each backend, the requests in flight of the front proxy's users for values that
    /// are fetched. Backends without an entry share
    /// [`Self::values_in_flight`].
    pub fetched_in_flight: Vec<usize>,
    /// Requests in flight of users with direct connections. All anonymous clients are one user.
    pub direct_in_flight: usize,
    /// The time limit of a request for values.
    pub values_time: Duration,
}

/// The default of [`SecuritySettings::values_time`], the longest time limit of a request.
pub const VALUES_TIME: Duration = Duration::from_secs(10);

/// The time limit of a request that is not for values.
const OTHER_TIME: Duration = Duration::from_secs(2);

impl Default for SecuritySettings {
    fn default() -> Self {
        Self {
            token_life: Duration::from_secs(10),
            token_budget: Duration::from_secs(4),
            token_reviews: 16,
            allowed_life: Duration::from_secs(10),
            denied_life: Duration::from_secs(5),
            always_allowed: AlwaysAllowed::default(),
            access_budget: Duration::from_secs(5),
            direct_access_reviews: 32,
            values_in_flight: 400,
            fetched_in_flight: Vec::new(),
            direct_in_flight: 100,
            values_time: VALUES_TIME,
        }
    }
}

impl SecuritySettings {
    pub(crate) fn time_limit(&self, access: &Access) -> Duration {
        match access {
            Access::Resource { .. } => self.values_time,
            Access::NonResource { .. } => OTHER_TIME,
        }
    }

    /// The time at which reviews end. The rest of the time limit is for the response, if a
    /// review does not end.
    pub fn review_until(&self, access: &Access, began: Instant) -> Instant {
        began + self.time_limit(access) * 9 / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_leave_a_tenth_of_the_time_of_a_request_for_the_response() {
        let settings = SecuritySettings::default();
        let access = Access::NonResource {
            path: "/version".to_owned(),
            verb: "get".to_owned(),
        };
        let began = Instant::now();
        let until = settings.review_until(&access, began);
        assert_eq!(until - began, Duration::from_millis(1800));
    }
}
