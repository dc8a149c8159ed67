//! Certificates that the server makes for itself.
//!
//! ```text
//!             ┌──────────── Secret ────────────┐
//!  replica ◄──┤ authorities, serving pair      ├──► replica
//!     │       └────────────────────────────────┘       │
//!     └───► caBundle of the APIServices ◄──────────────┘
//! ```
//!
//! There is no leader. Each replica makes the same pass every few seconds
//! (`replica`): read the APIServices, read the Secret, mend the Secret
//! (`decide`), mend the bundles (`registration`), and put into force what is
//! trusted. A write names the version it is based on; who comes second looks
//! again.
//!
//! Whoever may write the Secret owns the authority: what is written there is
//! taken for ours and comes to be trusted by kube-apiserver. The right to write
//! it is as strong as the right to read it, and is to be given to nobody else.

pub mod content;
pub mod decide;
mod registration;
mod replica;
mod settings;
pub mod store;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::Publisher;
use replica::Replica;
pub use settings::{APISERVICES, EVERY, RESOURCE_APISERVICE, Settings, service_names};
use store::{Registry, SecretStore};

/// Rest after a write: the next step waits for nobody else.
const SOON: Duration = Duration::from_secs(1);

/// Keeps certificate and registration until told to stop.
pub async fn run<S: SecretStore, R: Registry>(
    settings: Settings,
    (secret, registry): (S, R),
    publisher: Publisher,
    clock: impl Fn() -> SystemTime,
    mut stop: watch::Receiver<bool>,
) {
    let every = settings.every;
    let mut replica = Replica::new(settings, secret, registry, publisher);
    let passes = async {
        loop {
            let wrote = replica.pass(clock()).await;
            tokio::time::sleep(if wrote { SOON.min(every) } else { every }).await;
        }
    };
    // A pass may be left anywhere: each of its writes stands for itself.
    tokio::select! {
        () = passes => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
