//! Settings of the managed certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::store::ServiceName;

/// Time between two passes. An emptied bundle is restored within it.
const EVERY: Duration = Duration::from_secs(10);

/// The APIServices of `manifests/apiservices.yaml`.
pub const APISERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

/// The APIServices of `manifests/optional/resource-metrics.yaml`.
pub const RESOURCE_APISERVICES: [&str; 2] = ["v1.metrics.k8s.io", "v1beta1.metrics.k8s.io"];

const HOUR: Duration = Duration::from_secs(3600);

/// How long a serving certificate lives.
pub(super) const LIFE: Duration = HOUR.saturating_mul(24 * 90);

/// How old an authority is before its certificates replace one that is valid.
pub(super) const JOINING: Duration = HOUR.saturating_mul(24);

pub(super) const AUTHORITY_LIFE: Duration = HOUR.saturating_mul(24 * 365);

/// The allowed clock skew: certificates are valid from this long before they are issued.
pub(super) const SKEW: Duration = HOUR;

/// Settings of the managed certificates.
#[derive(Clone, Debug)]
pub struct ManagedSettings {
    /// The server's Service. APIServices that refer to it belong to the server, and the
    /// certificate is issued for it.
    pub service: ServiceName,
    /// The APIServices to manage.
    pub apiservices: Vec<String>,
    /// Whether [`RESOURCE_APISERVICES`] are managed too.
    pub serves_resources: Arc<AtomicBool>,
    /// Whether to take over an APIService of another server (`--take-over`).
    pub take_over: bool,
    /// Time between two passes.
    pub every: Duration,
}

impl ManagedSettings {
    /// Default settings for a Service.
    pub fn new(service: ServiceName) -> Self {
        Self {
            service,
            apiservices: APISERVICES.map(str::to_owned).to_vec(),
            serves_resources: Arc::default(),
            take_over: false,
            every: EVERY,
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names = self.apiservices.clone();
        if self.serves_resources.load(Ordering::Relaxed) {
            names.extend(RESOURCE_APISERVICES.map(str::to_owned));
        }
        names
    }
}

/// How to create an absent APIService.
pub(super) fn remedy_of_absence(name: &str) -> &'static str {
    if RESOURCE_APISERVICES.contains(&name) {
        "apply manifests/optional/resource-metrics.yaml"
    } else {
        "apply manifests/apiservices.yaml, or run helm upgrade"
    }
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
