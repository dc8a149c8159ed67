//! Wiring: builds each stage, connects its output to the next, and passes the time to the
//! pure parts.
//!
//! ```text
//!  engine ── snapshots, findings ──► GpuProvider ─┐
//!    ▲ inventory                                  ├─► Composite ──► API (TLS)
//!  watches ──► ClusterNames ─► RuleProvider ──────┘      ▲ trust, certificate, reviews
//!                                 ▲ rules in force
//!                        discovery of rules
//! ```
//!
//! All arrows are immutable snapshots. Each part registers its checks and its metrics, and
//! spawns its tasks in one set.

mod certificate;
mod cluster_checks;
pub(crate) mod engine;
pub(crate) mod metrics;
pub(crate) mod reload;
mod rule_backend;
mod rule_discovery;
pub(crate) mod server;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;
mod trust;

use std::io;
use std::net::SocketAddr;

use cluster_state::error::ClientError;
use configuration::{ConfigurationError, NoPrometheus};
use tasks::TaskEnded;

/// Why the server does not run. For everything else it waits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error(transparent)]
    Prometheus(#[from] NoPrometheus),
    /// No certificate can be made for the Service.
    #[error("--service: {0}")]
    Service(String),
    #[error(
        "cannot listen on {address}: {error}: stop the program that uses it, or choose another \
         address with --bind-address or port with --secure-port"
    )]
    Port {
        address: SocketAddr,
        error: io::Error,
    },
    /// The operating system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A kubeconfig or the pod's service account cannot be used.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Task(#[from] TaskEnded),
    /// A family of metrics is declared wrongly.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}
