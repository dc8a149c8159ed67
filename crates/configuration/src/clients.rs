//! The clients for the Prometheus servers of a configuration.

use std::sync::Arc;

use prometheus_source::prometheus::promql::PromqlClient;
use prometheus_source::prometheus::replicas::Replicas;
use prometheus_source::{KeyHasher, Prometheus};

use super::Config;

/// The clients for the Prometheus servers of a configuration.
#[derive(Debug)]
pub struct Clients {
    /// For GPU series: one for `prometheus`, then one for each entry of `prometheus.additional`.
    pub sources: Vec<Prometheus>,
    /// For the queries of rules.
    pub promql: PromqlClient,
}

/// The reason why no clients can be made.
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
    /// Makes the clients of a configuration. No request is sent.
    ///
    /// # Errors
    /// When the configuration has no address, or a file it names cannot be used.
    pub fn new(config: &Config) -> Result<Self, NoClients> {
        let settings = config.prometheus.clone().ok_or(NoClients::NoAddress)?;
        // Each source has its own hash key: two servers may have equal series of different
        // devices.
        let source = |settings| Prometheus::new(settings, KeyHasher::new());
        let first = source(settings.clone())?;
        let promql = PromqlClient::new(settings, first.replicas())?;
        let mut sources = vec![first];
        for settings in &config.additional {
            sources.push(source(settings.clone())?);
        }
        Ok(Self { sources, promql })
    }

    /// Makes the first source use the replicas of `prometheus.url` that an earlier client
    /// of the same settings uses.
    pub fn share(&mut self, replicas: &Arc<Replicas>) {
        if let Some(first) = self.sources.first_mut() {
            first.share(replicas);
        }
    }
}
