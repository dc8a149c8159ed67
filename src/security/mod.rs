//! Who asks, and whether they may: small tower layers around the API.
//!
//! Nothing here can reach the data: a fault in this module refuses and never
//! leaks. Reviews go out through the [`reviewer::Reviewer`] trait, what is
//! believed comes in through a [`trust::TrustStore`], and refusals are worded by
//! whoever hands in [`Guard::refuse`].

pub mod audit;
pub mod authenticate;
pub mod authorize;
mod bundle;
pub mod counters;
pub mod denied;
mod digest;
mod front_proxy;
pub mod identity;
pub mod layer;
mod limit;
mod memo;
mod panic;
pub mod peer;
mod places;
mod quota;
pub mod rate;
pub mod reviewer;
pub mod settings;
mod subject;
mod tokens;
pub mod trust;

use std::fmt;
use std::sync::Arc;

use tower::ServiceBuilder;

use audit::{AccessOf, Audit};
use authenticate::{Authenticate, Clock};
use authorize::Authorize;
use counters::Counters;
use denied::{Refusals, Refuse};
use layer::{Inner, Wrap};
pub use limit::Permit;
use limit::{HeaderLimit, InFlight, TimeLimit};
use panic::CatchPanic;
use reviewer::Reviewer;
use settings::Settings;
use tokens::Tokens;
use trust::TrustStore;

/// What the layers are made of.
pub struct Guard {
    /// What is believed; filled and changed by somebody else.
    pub trust: Arc<TrustStore>,
    /// Asks kube-apiserver.
    pub reviewer: Arc<dyn Reviewer>,
    /// Tells what a request wants to do.
    pub access_of: AccessOf,
    /// Words refusals.
    pub refuse: Refuse,
    /// Gives the time.
    pub clock: Clock,
    /// The numbers.
    pub settings: Settings,
    /// What is counted.
    pub counters: Arc<Counters>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("trust", &self.trust)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// The layers around a service, outermost first. Before them the listener
    /// has limited connections, handshakes and bodies.
    ///
    /// The order is that of the reference (apiserver `pkg/server/config.go`): the
    /// audit sees every refusal, also of what is cut off or panics; how many
    /// requests are under way counts after it is known whose they are.
    pub fn around<S: Inner>(self, service: S) -> impl Inner {
        let Self {
            access_of,
            settings,
            counters,
            reviewer,
            ..
        } = self;
        let refusals = Refusals::new(self.refuse, counters.clone());
        let tokens = Tokens::new(reviewer.clone(), &settings, counters.clone());
        ServiceBuilder::new()
            .layer(Wrap::new(Audit::new(access_of, &settings)))
            .layer(Wrap::new(CatchPanic {
                refusals: refusals.clone(),
                access_of,
            }))
            .layer(Wrap::new(TimeLimit {
                values: settings.values_time,
                other: settings.other_time,
                refusals: refusals.clone(),
                access_of,
            }))
            .layer(Wrap::new(HeaderLimit {
                lines: settings.header_lines,
                bytes: settings.header_bytes,
                refusals: refusals.clone(),
                access_of,
            }))
            .layer(Wrap::new(Authenticate {
                trust: self.trust,
                tokens,
                clock: self.clock,
                refusals: refusals.clone(),
                access_of,
            }))
            .layer(Wrap::new(InFlight::new(
                &settings,
                refusals.clone(),
                access_of,
            )))
            .layer(Wrap::new(Authorize::new(
                reviewer, &settings, counters, refusals, access_of,
            )))
            .service(service)
    }
}
