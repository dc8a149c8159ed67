//! Authentication and authorization. Each file makes one decision about a request. The
//! layer that calls them is in [`crate::api::layers`].
//!
//! This module has no access to the data, so a fault in it can refuse requests but cannot
//! leak values. It sends reviews through the [`reviewer::Reviewer`] trait, and reads the
//! trusted authorities from a [`trust::TrustStore`].

pub mod always_allowed;
pub(crate) mod authenticate;
mod authorize;
pub(crate) mod bundle;
pub mod counters;
mod front_proxy;
pub mod identity;
mod in_flight;
pub mod peer;
pub mod reviewer;
mod reviews;
pub mod settings;
pub mod trust;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use counters::Counters;
use in_flight::InFlight;
pub(crate) use in_flight::InFlightPermit;
use reviewer::Reviewer;
use reviews::Reviews;
use settings::SecuritySettings;
use trust::TrustStore;

/// Returns the time, which decides whether certificates are valid.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Decides about requests: authentication (`authenticate`), the limit of requests in flight
/// (`limit`), and authorization (`authorize`).
pub struct Security {
    /// Limits and times.
    pub settings: SecuritySettings,
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
    /// `reviewer` makes the reviews. `trust` is filled and updated by another task.
    pub fn new(
        trust: Arc<TrustStore>,
        reviewer: Arc<dyn Reviewer>,
        clock: Clock,
        settings: SecuritySettings,
        counters: &Counters,
    ) -> Self {
        Self {
            in_flight: InFlight::new(&settings),
            trust,
            reviews: Reviews::new(reviewer, &settings, counters),
            clock,
            settings,
        }
    }
}
