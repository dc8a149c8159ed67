//! The clients of the Prometheus of a configuration.

use std::sync::Arc;

use prometheus_source::prometheus::promql::PromqlClient;
use prometheus_source::prometheus::replicas::Replicas;
use prometheus_source::{KeyHasher, Prometheus};

use super::Config;

/// The clients of the Prometheus of a configuration.
#[derive(Debug)]
pub struct Clients {
    /// For GPU series: Prometheus, and those of `prometheus.additional`.
    pub sources: Vec<Prometheus>,
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
        // Each has its own key: two servers may have equal series of two devices.
        let source = |settings| Prometheus::new(settings, KeyHasher::new());
        let first = source(settings.clone())?;
        let promql = PromqlClient::new(settings, first.replicas())?;
        let mut sources = vec![first];
        for settings in &config.additional {
            sources.push(source(settings.clone())?);
        }
        Ok(Self { sources, promql })
    }

    /// Asks `prometheus.url` by the addresses of an earlier client of the same settings.
    pub fn share(&mut self, replicas: &Arc<Replicas>) {
        if let Some(first) = self.sources.first_mut() {
            first.share(replicas);
        }
    }
}
