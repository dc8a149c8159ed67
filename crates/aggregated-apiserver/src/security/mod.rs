//! Authentication and authorization. Each part decides one thing about a request; the
//! layers that call them are in [`crate::api::layers`].
//!
//! This module cannot reach the data: a fault in it refuses requests and never leaks
//! values. Reviews go out through the [`reviewer::Reviewer`] trait, and trusted
//! authorities come in through a [`trust::TrustStore`].

pub mod always_allowed;
pub mod audit;
pub mod authenticate;
pub mod authorize;
mod bundle;
pub mod counters;
pub mod denied;
mod front_proxy;
pub mod identity;
mod limit;
pub mod peer;
pub mod reviewer;
mod reviews;
pub mod settings;
mod subject;
mod tokens;
pub mod trust;

use std::sync::Arc;

use audit::Audit;
use authenticate::{Authenticate, Clock};
use authorize::Authorize;
use counters::Counters;
pub use limit::{InFlight, InFlightPermit};
use reviewer::Reviewer;
use reviews::Reviews;
use settings::SecuritySettings;
use trust::TrustStore;

/// The parts that decide about requests.
#[derive(Debug)]
pub struct Security {
    /// Limits and times.
    pub settings: SecuritySettings,
    /// Authentication.
    pub authenticate: Authenticate,
    /// Limits requests in flight.
    pub in_flight: InFlight,
    /// Authorization.
    pub authorize: Authorize,
    /// Logs refused requests.
    pub audit: Audit,
    /// Counts refusals and reviews.
    pub counters: Arc<Counters>,
}

impl Security {
    /// Reviews by `reviewer` and trusts `trust`, which another task fills and updates;
    /// `clock` gives the time.
    #[must_use]
    pub fn new(
        trust: Arc<TrustStore>,
        reviewer: Arc<dyn Reviewer>,
        clock: Clock,
        settings: SecuritySettings,
        counters: &Arc<Counters>,
    ) -> Self {
        let reviews = Arc::new(Reviews::new(reviewer, &settings, counters));
        Self {
            authenticate: Authenticate {
                trust,
                reviews: Arc::clone(&reviews),
                clock,
            },
            in_flight: InFlight::new(&settings),
            authorize: Authorize {
                reviews,
                always_allowed: settings.always_allowed.clone(),
            },
            audit: Audit::new(&settings),
            counters: Arc::clone(counters),
            settings,
        }
    }
}
