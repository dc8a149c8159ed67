//! Limits on requests in flight (docs/security.md, "Limits"). The listener has limited the
//! size of bodies before: no request here has one.

use std::sync::Arc;

use super::always_allowed::is_health;
use super::identity::{MASTERS, User, Via};
use super::reviewer::Access;
use super::settings::SecuritySettings;
use crate::refusal::Refusal;
use limits::permits::{Permit, Permits};

/// Limits requests in flight. It runs after authentication, as in the reference
/// (kubernetes/apiserver `pkg/server/config.go`), because each kind of client has its own
/// permits, of which one user may hold half. Direct clients, of whom the anonymous ones are one user,
/// take no permits from users of the front proxy.
#[derive(Debug)]
pub(crate) struct InFlight {
    values: Permits,
    /// By backend: a fetch may take long, and values in memory need none of these permits.
    fetched: Vec<Permits>,
    direct: Permits,
}

const WAITING: &str = "too many requests wait for values from the store, try again later";

/// A request's permit, kept in the response's extensions until the response has been
/// written. `None`: the request has no limit.
pub(crate) type InFlightPermit = Option<Arc<Permit>>;

impl InFlight {
    pub(super) fn new(settings: &SecuritySettings) -> Self {
        let fetched = settings.fetched_in_flight.iter();
        Self {
            values: Permits::new(settings.values_in_flight),
            fetched: fetched.map(|most| Permits::new(*most)).collect(),
            direct: Permits::new(settings.direct_in_flight),
        }
    }

    /// A permit for a request. `backend` is the index of the backend that serves the values.
    pub(crate) fn permit(
        &self,
        user: &User,
        what: &Access,
        backend: Option<usize>,
    ) -> Result<InFlightPermit, Refusal> {
        let fetched = backend.and_then(|backend| self.fetched.get(backend));
        let (permits, refusal) = match (user.via, what) {
            _ if is_health(what) || user.identity.is_in(MASTERS) => return Ok(None),
            (Via::Direct, _) => (&self.direct, Refusal::Busy),
            // Such as discovery, whose documents are in memory once for all requests.
            (Via::FrontProxy, Access::NonResource { .. }) => return Ok(None),
            (Via::FrontProxy, Access::Resource { .. }) => match fetched {
                Some(fetched) => (fetched, Refusal::Saturated(WAITING)),
                None => (&self.values, Refusal::Busy),
            },
        };
        let permit = permits.try_take(&user.identity.user).ok_or(refusal)?;
        Ok(Some(Arc::new(permit)))
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
        assert!(matches!(refused, Err(Refusal::Saturated(_))));
        permit("bob", Some(1)).unwrap();
        permit("bob", None).unwrap();
        drop(held);
    }
}
