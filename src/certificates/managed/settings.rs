//! What to keep: for which Service, for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::store::ServiceName;

/// Time between two passes: a bundle that somebody emptied is filled again
/// within it.
pub const EVERY: Duration = Duration::from_secs(10);

/// The APIServices of `manifests/apiservices.yaml`.
pub const APISERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

/// The APIService of `manifests/optional/resource-metrics.yaml`.
pub const RESOURCE_APISERVICE: &str = "v1beta1.metrics.k8s.io";

const HOUR: Duration = Duration::from_secs(3600);

/// How long certificates live.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// An authority.
    pub authority: Duration,
    /// A serving certificate.
    pub leaf: Duration,
    /// How far clocks may be apart: certificates are valid that much earlier
    /// than they are made.
    pub skew: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            authority: HOUR * 24 * 365,
            leaf: HOUR * 24 * 90,
            skew: HOUR,
        }
    }
}

/// What to keep.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our Service: the APIServices that name it are ours, and the certificate
    /// is made for it.
    pub service: ServiceName,
    /// The APIServices to look after.
    pub apiservices: Vec<String>,
    /// Whether [`RESOURCE_APISERVICE`] is one of them now.
    pub serves_resources: Arc<AtomicBool>,
    /// Whether one of another server is made ours (`--take-over`).
    pub take_over: bool,
    /// How long certificates live.
    pub lifetimes: Lifetimes,
    /// Time between two passes.
    pub every: Duration,
}

impl Settings {
    /// For a Service, with all that is usual.
    #[must_use]
    pub fn new(service: ServiceName) -> Self {
        Self {
            service,
            apiservices: APISERVICES.map(str::to_owned).to_vec(),
            serves_resources: Arc::default(),
            take_over: false,
            lifetimes: Lifetimes::default(),
            every: EVERY,
        }
    }

    /// The APIServices to look after now.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = self.apiservices.clone();
        if self.serves_resources.load(Ordering::Relaxed) {
            names.push(RESOURCE_APISERVICE.to_owned());
        }
        names
    }
}

/// What makes an APIService that is absent. `check` knows the server's Service; a
/// manifest would lead the APIService to the Service of its own installation.
pub(super) fn remedy_of_absence(name: &str) -> &'static str {
    match name {
        RESOURCE_APISERVICE => "apply manifests/optional/resource-metrics.yaml",
        _ => "run gpu-metrics-apiserver check, which prints the command that makes it",
    }
}

/// The names by which a Service is called; kube-apiserver verifies the first.
#[must_use]
pub fn service_names(service: &ServiceName) -> Vec<String> {
    let ServiceName { namespace, name } = service;
    vec![
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
        format!("{name}.{namespace}"),
    ]
}
