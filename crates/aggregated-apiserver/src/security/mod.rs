//! Authentication and authorization. Each file decides one thing about a request; the
//! layer that calls them is in [`crate::api::layers`].
//!
//! This module cannot reach the data: a fault in it refuses requests and never leaks
//! values. Reviews go out through the [`reviewer::Reviewer`] trait, and trusted
//! authorities come in through a [`trust::TrustStore`].

pub mod always_allowed;
pub(crate) mod authenticate;
mod authorize;
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
pub mod trust;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use counters::Counters;
use limit::InFlight;
pub(crate) use limit::InFlightPermit;
use reviewer::Reviewer;
use reviews::Reviews;
use settings::SecuritySettings;
use trust::TrustStore;

/// Gives the time, by which certificates expire.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Decides about requests: who asks (`authenticate`), whether too many are in flight
/// (`limit`), and whether the user may (`authorize`).
pub struct Security {
    /// Limits and times.
    pub settings: SecuritySettings,
    pub(crate) counters: Arc<Counters>,
    pub(crate) in_flight: InFlight,
    trust: Arc<TrustStore>,
    reviews: Reviews,
    clock: Clock,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security").finish_non_exhaustive()
    }
}

impl Security {
    /// Reviews by `reviewer` and trusts `trust`, which another task fills and updates;
    /// `clock` gives the time.
    pub fn new(
        trust: Arc<TrustStore>,
        reviewer: Arc<dyn Reviewer>,
        clock: Clock,
        settings: SecuritySettings,
        counters: &Arc<Counters>,
    ) -> Self {
        Self {
            counters: Arc::clone(counters),
            in_flight: InFlight::new(&settings),
            trust,
            reviews: Reviews::new(reviewer, &settings, counters),
            clock,
            settings,
        }
    }
}
