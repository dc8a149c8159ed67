//! The clients of the Prometheus of a configuration.

use prometheus_source::prometheus::promql::PromqlClient;
use prometheus_source::{KeyHasher, Prometheus};

use super::Config;

/// The clients of the Prometheus of a configuration.
#[derive(Debug)]
pub struct Clients {
    /// For GPU series.
    pub source: Prometheus,
    /// For the queries of rules.
    pub promql: PromqlClient,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum NoClients {
    /// No address is configured.
    #[error(
        "no address of Prometheus: give --prometheus-url http://host:port, or prometheus.url in the file of --config"
    )]
    NoAddress,
    /// A certificate file cannot be used.
    #[error(transparent)]
    Unusable(#[from] prometheus_source::Error),
}

impl Clients {
    /// Those of a configuration. No request is sent.
    ///
    /// # Errors
    /// When it has no address, or its files cannot be used.
    pub fn new(config: &Config) -> Result<Self, NoClients> {
        let settings = config.prometheus.clone().ok_or(NoClients::NoAddress)?;
        let source = Prometheus::new(settings.clone(), KeyHasher::new())?;
        let promql = PromqlClient::new(settings, source.replicas())?;
        Ok(Self { source, promql })
    }
}
