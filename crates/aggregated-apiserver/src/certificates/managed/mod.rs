//! Certificates that the server issues for itself.
//!
//! ```text
//!             ┌──────────── Secret ────────────┐
//!  replica ◄──┤ authorities, serving pair      ├──► replica
//!     │       └────────────────────────────────┘       │
//!     └───► caBundle of the APIServices ◄──────────────┘
//! ```
//!
//! There is no leader. Each replica makes the same pass every few seconds
//! (`replica`): read the APIServices, read the Secret, repair the Secret
//! (`decide`), repair the bundles (`registration`), and put into force what is
//! trusted. A write names the version it is based on; the second of two
//! writers reads again.
//!
//! The right to write the Secret is control of the authority: kube-apiserver comes
//! to trust what is written there. The right is as strong as the right to read the
//! Secret. Grant it to no other account.

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
pub use settings::{APISERVICES, EVERY, ManagedSettings, RESOURCE_APISERVICES, service_names};
use store::CertificateStore;

/// Wait after a write, or after another replica was faster.
const SOON: Duration = Duration::from_secs(1);

/// Keeps certificate and registration until `stop`.
pub async fn run<S: CertificateStore>(
    settings: ManagedSettings,
    store: S,
    publisher: Publisher,
    mut stop: watch::Receiver<bool>,
) {
    let every = settings.every;
    let mut replica = Replica::new(settings, store, publisher);
    let passes = async {
        loop {
            let soon = replica.pass(SystemTime::now()).await;
            tokio::time::sleep(if soon { SOON.min(every) } else { every }).await;
        }
    };
    // A pass can be cancelled at any point: each of its writes is complete in itself.
    tokio::select! {
        () = passes => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
