//! Limits on all requests at a time (docs/security.md, "Limits"). A body's size
//! is the listener's business: no request here has one.

use std::fmt::Debug;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::always_allowed::is_health;
use super::authenticate::User;
use super::denied::Denied;
use super::identity::{MASTERS, Via};
use super::reviewer::Access;
use super::settings::Settings;
use limits::permits::Permits;

/// Refuses requests at once when too many are under way. It stands after
/// authentication, as in the reference (kubernetes/apiserver
/// `pkg/server/config.go`), because each kind of client has a semaphore of its
/// own: direct and anonymous clients take nothing from the front proxy's users.
#[derive(Debug)]
pub struct InFlight {
    values: Arc<Semaphore>,
    rules: Permits,
    usage: Permits,
    discovery: Arc<Semaphore>,
    direct: Arc<Semaphore>,
    anonymous: Arc<Semaphore>,
}

/// What the values of a request have to be fetched for. Each has permits of its
/// own: requests that wait for the query of a rule leave those for resource metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedFor {
    /// A metric of a rule.
    Rule,
    /// What pods and nodes use (`metrics.k8s.io`).
    Usage,
}

/// What a request holds until its answer has been written; put into the answer's
/// extensions. Nothing where requests have no limit.
#[derive(Clone, Debug, Default)]
pub struct Permit {
    _held: Option<Arc<dyn Debug + Send + Sync>>,
}

impl InFlight {
    pub(super) fn new(settings: &Settings) -> Self {
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

    /// A permit for a request. Values that have to be fetched may take long:
    /// requests for them have permits of their own, and one user half of these, so
    /// that requests for values in memory never lack one.
    ///
    /// # Errors
    /// [`Denied::Busy`] or [`Denied::Saturated`] when too many are under way.
    pub fn permit(
        &self,
        user: Option<&User>,
        what: &Access,
        fetched: Option<FetchedFor>,
    ) -> Result<Permit, Denied> {
        let Some(semaphore) = self.semaphore(user, what) else {
            return Ok(Permit::default());
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
        Ok(Permit { _held: Some(held) })
    }

    /// The semaphore that limits such requests; `None` for those without limit.
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
        let limit = InFlight::new(&Settings {
            fetched_in_flight: 2,
            ..Settings::default()
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
