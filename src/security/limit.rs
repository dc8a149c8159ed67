//! Limits on all requests at a time (docs/security.md, "Limits"). A body's size
//! is the listener's business: no request here has one.

use std::fmt::Debug;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::always_allowed::is_health;
use super::authenticate::User;
use super::identity::{MASTERS, Via};
use super::reviewer::Access;
use super::settings::Settings;
use crate::permits::Permits;

/// Refuses requests at once when too many are under way. It stands after
/// authentication, as in the reference (kubernetes/apiserver
/// `pkg/server/config.go`), because each kind of client has a semaphore of its
/// own: direct and anonymous clients take nothing from the front proxy's users.
#[derive(Debug)]
pub struct InFlight {
    values: Arc<Semaphore>,
    rules: Arc<Permits>,
    discovery: Arc<Semaphore>,
    direct: Arc<Semaphore>,
    anonymous: Arc<Semaphore>,
}

/// What a request holds until its answer has been written; put into the answer's
/// extensions. Nothing where requests have no limit.
#[derive(Clone, Debug, Default)]
pub struct Permit {
    _held: Option<Arc<dyn Debug + Send + Sync>>,
    /// Where a request for values finds a permit if it has to wait.
    rules: Option<Arc<Permits>>,
}

impl Permit {
    /// Exchanges the permit of a request for values that cannot be answered from
    /// memory, so that those that can never lack one. `None`: too many of its kind
    /// are under way.
    #[must_use]
    pub fn exchange(self, user: &str) -> Option<Self> {
        let Some(rules) = &self.rules else {
            return Some(self);
        };
        let held = rules.try_take(user)?;
        Some(Self {
            _held: Some(Arc::new(held)),
            rules: None,
        })
    }
}

impl InFlight {
    pub(super) fn new(settings: &Settings) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            values: semaphore(settings.values_in_flight),
            rules: Arc::new(Permits::new(settings.rules_in_flight)),
            discovery: semaphore(settings.discovery_in_flight),
            direct: semaphore(settings.direct_in_flight),
            anonymous: semaphore(settings.anonymous_in_flight),
        }
    }

    /// `None` when too many are under way.
    #[must_use]
    pub fn permit(&self, user: Option<&User>, what: &Access) -> Option<Permit> {
        let Some(semaphore) = self.semaphore(user, what) else {
            return Some(Permit::default());
        };
        let permit = Arc::clone(semaphore).try_acquire_owned().ok()?;
        let is_for_values = Arc::ptr_eq(semaphore, &self.values);
        Some(Permit {
            _held: Some(Arc::new(permit)),
            rules: is_for_values.then(|| Arc::clone(&self.rules)),
        })
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
