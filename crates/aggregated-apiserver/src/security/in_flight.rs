//! Limits on requests in flight (docs/security.md, "Limits"). The listener has limited the
//! size of bodies before: no request here has one.

use std::fmt::Debug;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::always_allowed::is_health;
use super::identity::{MASTERS, User, Via};
use super::reviewer::Access;
use super::settings::SecuritySettings;
use crate::refusal::Refusal;
use limits::permits::Permits;

/// Limits requests in flight. It runs after authentication, as in the reference
/// (kubernetes/apiserver `pkg/server/config.go`), because each kind of client has its own
/// semaphore. Direct and anonymous clients take no permits from users of the front proxy.
#[derive(Debug)]
pub(crate) struct InFlight {
    values: Arc<Semaphore>,
    /// By backend.
    fetched: Vec<Permits>,
    discovery: Arc<Semaphore>,
    direct: Arc<Semaphore>,
    anonymous: Arc<Semaphore>,
}

/// A request's permit, kept in the response's extensions until the response has been
/// written. Empty: the request has no limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightPermit {
    _held: Option<Arc<dyn Debug + Send + Sync>>,
}

impl InFlight {
    pub(super) fn new(settings: &SecuritySettings) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            values: semaphore(settings.values_in_flight),
            fetched: (settings.fetched_in_flight.iter().copied())
                .map(Permits::new)
                .collect(),
            discovery: semaphore(settings.discovery_in_flight),
            direct: semaphore(settings.direct_in_flight),
            anonymous: semaphore(settings.anonymous_in_flight),
        }
    }

    /// A permit for a request. `backend` is the index of the backend that serves the
    /// values. A fetch may take long, so each backend has its own permits, half of them for
    /// one user. Requests for values in memory need none of these.
    pub(crate) fn permit(
        &self,
        user: &User,
        what: &Access,
        backend: Option<usize>,
    ) -> Result<InFlightPermit, Refusal> {
        let Some(semaphore) = self.semaphore(user, what) else {
            return Ok(InFlightPermit::default());
        };
        let fetched = backend.and_then(|backend| self.fetched.get(backend));
        let held: Arc<dyn Debug + Send + Sync> = match fetched {
            Some(permits) if Arc::ptr_eq(semaphore, &self.values) => {
                let permit = permits.try_take(&user.identity.user);
                Arc::new(permit.ok_or(Refusal::Saturated)?)
            }
            _ => {
                let permit = Arc::clone(semaphore).try_acquire_owned();
                Arc::new(permit.map_err(|_| Refusal::Busy)?)
            }
        };
        Ok(InFlightPermit { _held: Some(held) })
    }

    /// The semaphore that limits these requests; `None`: no limit.
    fn semaphore(&self, user: &User, what: &Access) -> Option<&Arc<Semaphore>> {
        if is_health(what) || user.identity.is_in(MASTERS) {
            return None;
        }
        if user.identity.is_anonymous() {
            return Some(&self.anonymous);
        }
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
    fn requests_for_one_backend_leave_the_permits_of_another() {
        let limit = InFlight::new(&SecuritySettings {
            fetched_in_flight: vec![2, 2],
            ..SecuritySettings::default()
        });
        let what = Access::all_pods();
        let permit = |name: &str, backend| {
            let identity = Identity {
                user: name.to_owned(),
                ..Identity::default()
            };
            let user = User {
                identity: Arc::new(identity),
                via: Via::FrontProxy,
            };
            limit.permit(&user, &what, backend)
        };
        let held = ["bob", "eve"].map(|user| permit(user, Some(0)).unwrap());
        let refused = permit("ann", Some(0));
        assert!(matches!(refused, Err(Refusal::Saturated)));
        permit("bob", Some(1)).unwrap();
        permit("bob", None).unwrap();
        drop(held);
    }
}
