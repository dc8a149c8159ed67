//! Certificates that the server issues for itself.
//!
//! ```text
//!             ┌──── Secret ────┐
//!  replica ◄──┤   authority    ├──► replica
//!     │       └────────────────┘       │
//!     └───► caBundle of the APIServices ◄──┘
//! ```
//!
//! There is no leader. Each replica makes the same pass every few seconds (`replica`): it reads
//! the Secret, or makes an authority if it has none that is usable; signs a certificate in memory
//! if it has none of this authority, or an old one; and writes the authority to the bundles that
//! have another (`registration`). A write contains the version that it is based on. If two
//! replicas write at the same time, one gets a conflict and reads again.
//!
//! The authority changes when the Secret is deleted. Until every replica has made a pass,
//! kube-apiserver does not trust those with a certificate of the former authority.
//!
//! An account with the right to write the Secret controls the authority, because
//! kube-apiserver trusts what is written there. That right is as strong as the right to
//! read the Secret. Grant it to no other account.

mod registration;
mod replica;
pub mod store;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::Publisher;
use replica::Replica;
use store::{CertificateStore, ServiceName};

/// Time between two passes. An emptied bundle is restored within it.
const EVERY: Duration = Duration::from_secs(10);

/// Pause after a conflict, and while there is no certificate: the rights of a new server may be
/// seconds younger than its pod.
const SOON: Duration = Duration::from_secs(1);

/// The APIServices of `manifests/apiservices.yaml`.
pub const APISERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

/// The APIServices of `manifests/optional/resource-metrics.yaml`.
pub const RESOURCE_APISERVICES: [&str; 2] = ["v1.metrics.k8s.io", "v1beta1.metrics.k8s.io"];

/// Settings of the managed certificates.
#[derive(Clone, Debug)]
pub struct ManagedSettings {
    /// The server's Service. APIServices that refer to it belong to the server, and the
    /// certificate is issued for it.
    pub service: ServiceName,
    /// The APIServices to manage.
    pub apiservices: Vec<&'static str>,
    /// Whether to take over an APIService of another server (`--take-over`).
    pub take_over: bool,
}

/// The DNS names of a Service; kube-apiserver verifies the first.
pub fn service_names(service: &ServiceName) -> [String; 3] {
    let ServiceName { namespace, name } = service;
    [
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
        format!("{name}.{namespace}"),
    ]
}

/// Manages the certificate and its registration until `stop`.
pub async fn run<S: CertificateStore>(
    settings: ManagedSettings,
    store: S,
    publisher: Publisher,
    mut stop: watch::Receiver<bool>,
) {
    let mut replica = Replica::new(settings, store, publisher);
    let passes = async {
        loop {
            let soon = replica.pass(SystemTime::now()).await;
            tokio::time::sleep(if soon { SOON } else { EVERY }).await;
        }
    };
    // A pass can be cancelled at any point, because each of its writes is complete in itself.
    tokio::select! {
        () = passes => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
