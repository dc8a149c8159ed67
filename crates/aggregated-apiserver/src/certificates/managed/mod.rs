//! Certificates that the server issues for itself.
//!
//! ```text
//!             ┌──────────── Secret ────────────┐
//!  replica ◄──┤ authorities, serving pair      ├──► replica
//!     │       └────────────────────────────────┘       │
//!     └───► caBundle of the APIServices ◄──────────────┘
//! ```
//!
//! There is no leader. Each replica makes the same pass every few seconds (`replica`): read
//! the APIServices, read the Secret, repair the Secret (`decide`), repair the bundles
//! (`registration`), and put a trusted pair into force. A write contains the version that it
//! is based on. If two replicas write at the same time, one gets a conflict and reads again.
//!
//! An account with the right to write the Secret controls the authority, because
//! kube-apiserver trusts what is written there. That right is as strong as the right to
//! read the Secret. Grant it to no other account.

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
pub use settings::{APISERVICES, ManagedSettings, RESOURCE_APISERVICES, service_names};
use store::CertificateStore;

/// Pause after a write or a conflict.
const SOON: Duration = Duration::from_secs(1);

/// Manages the certificate and its registration until `stop`.
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
    // A pass can be cancelled at any point, because each of its writes is complete in itself.
    tokio::select! {
        () = passes => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
