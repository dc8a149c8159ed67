//! The clients for the Prometheus of a configuration.

use prometheus_source::{KeyHasher, Prometheus};

use super::Config;

/// The clients for the Prometheus of a configuration.
#[derive(Debug)]
pub struct Clients {
    /// For GPU series.
    pub prometheus: Prometheus,
    /// For the queries of rules.
    pub promql: Prometheus,
}

/// Why no clients can be made.
#[derive(Debug, thiserror::Error)]
pub enum NoClients {
    #[error(
        "no address of Prometheus: give --prometheus-url http://host:port, or prometheus.url in the file of --config"
    )]
    NoAddress,
    #[error(transparent)]
    Unusable(#[from] prometheus_source::Error),
}

impl Clients {
    /// Makes the clients of a configuration. No request is sent.
    ///
    /// # Errors
    /// When the configuration has no address, or a file it names cannot be used.
    pub fn new(config: &Config) -> Result<Self, NoClients> {
        let settings = config.prometheus.clone().ok_or(NoClients::NoAddress)?;
        let prometheus = Prometheus::new(settings, KeyHasher::new())?;
        let promql = prometheus.clone();
        Ok(Self { prometheus, promql })
    }
}
