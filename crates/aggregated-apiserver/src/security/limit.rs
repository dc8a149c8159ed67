//! Limits on requests in flight (docs/security.md, "Limits"). The listener limits a
//! body's size: no request here has one.

use std::fmt::Debug;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::always_allowed::is_health;
use super::authenticate::User;
use super::denied::Denied;
use super::identity::{MASTERS, Via};
use super::reviewer::Access;
use super::settings::SecuritySettings;
use limits::permits::Permits;

/// Refuses requests when too many are in flight. It runs after authentication, as in the
/// reference (kubernetes/apiserver `pkg/server/config.go`), because each kind of client
/// has its own semaphore: direct and anonymous clients take no permits from the front
/// proxy's users.
#[derive(Debug)]
pub struct InFlight {
    values: Arc<Semaphore>,
    rules: Permits,
    usage: Permits,
    discovery: Arc<Semaphore>,
    direct: Arc<Semaphore>,
    anonymous: Arc<Semaphore>,
}

/// Why the values of a request must be fetched. Each reason has its own permits: requests
/// that wait for the query of a rule leave those for resource metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedFor {
    /// A metric of a rule.
    Rule,
    /// What pods and nodes use (`metrics.k8s.io`).
    Usage,
}

/// A request's permit, kept in the answer's extensions until the answer has been written.
/// Empty for requests without limit.
#[derive(Clone, Debug, Default)]
pub struct InFlightPermit {
    _held: Option<Arc<dyn Debug + Send + Sync>>,
}

impl InFlight {
    pub(super) fn new(settings: &SecuritySettings) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            values: semaphore(settings.values_in_flight),
            rules: Permits::new(settings.fetched_in_flight),
            usage: Permits::new(settings.fetched_in_flight),
            discovery: semaphore(settings.discovery_in_flight),
            direct: semaphore(settings.direct_in_flight),
            anonymous: semaphore(settings.anonymous_in_flight),
        }
    }

    /// A permit for a request. Values that must be fetched may take long, so requests for
    /// them have permits of their own, of which one user gets half. Requests for values
    /// in memory then never lack one.
    ///
    /// # Errors
    /// [`Denied::Busy`] or [`Denied::Saturated`] when too many are in flight.
    pub fn permit(
        &self,
        user: Option<&User>,
        what: &Access,
        fetched: Option<FetchedFor>,
    ) -> Result<InFlightPermit, Denied> {
        let Some(semaphore) = self.semaphore(user, what) else {
            return Ok(InFlightPermit::default());
        };
        let held: Arc<dyn Debug + Send + Sync> = match (user, fetched) {
            (Some(user), Some(fetched)) if Arc::ptr_eq(semaphore, &self.values) => {
                let permits = match fetched {
                    FetchedFor::Rule => &self.rules,
                    FetchedFor::Usage => &self.usage,
                };
                let permit = permits.try_take(&user.identity.user);
                Arc::new(permit.ok_or(Denied::Saturated)?)
            }
            _ => {
                let permit = Arc::clone(semaphore).try_acquire_owned();
                Arc::new(permit.map_err(|_| Denied::Busy)?)
            }
        };
        Ok(InFlightPermit { _held: Some(held) })
    }

    /// The semaphore that limits these requests; `None`: no limit.
    fn semaphore(&self, user: Option<&User>, what: &Access) -> Option<&Arc<Semaphore>> {
        let is_master = user.is_some_and(|user| user.identity.is_in(MASTERS));
        if is_health(what) || is_master {
            return None;
        }
        let Some(user) = user.filter(|user| !user.identity.is_anonymous()) else {
            return Some(&self.anonymous);
        };
        Some(match (user.via, what) {
            (Via::Direct, _) => &self.direct,
            (Via::FrontProxy, Access::Resource { .. }) => &self.values,
            (Via::FrontProxy, Access::NonResource { .. }) => &self.discovery,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::identity::Identity;

    #[test]
    fn requests_for_rules_leave_the_permits_of_resource_metrics() {
        let limit = InFlight::new(&SecuritySettings {
            fetched_in_flight: 2,
            ..SecuritySettings::default()
        });
        let what = Access::all_pods();
        let permit = |name: &str, fetched| {
            let identity = Identity {
                user: name.to_owned(),
                ..Identity::default()
            };
            let user = User {
                identity: Arc::new(identity),
                via: Via::FrontProxy,
            };
            limit.permit(Some(&user), &what, fetched)
        };
        let held = ["bob", "eve"].map(|user| permit(user, Some(FetchedFor::Rule)).unwrap());
        let refused = permit("ann", Some(FetchedFor::Rule));
        assert!(matches!(refused, Err(Denied::Saturated)));
        permit("bob", Some(FetchedFor::Usage)).unwrap();
        permit("bob", None).unwrap();
        drop(held);
    }
}
