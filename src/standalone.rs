//! GPU metrics of one source and one inventory, without a cluster, for the demonstration.

use std::sync::Arc;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;

use cluster_state::clock;
use configuration::Config;
use gpu_metrics::inventory::Inventory;
use prometheus_source::Prometheus;

use crate::api::{Api, router};
use crate::app::engine::{self, Engine};
use crate::app::metrics;
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::telemetry::Telemetry;

/// A running poll loop, and what it serves.
#[derive(Debug)]
pub struct Standalone {
    /// The values that are served.
    pub values: Arc<GpuProvider>,
    /// The metrics APIs, the health and the server's own metrics, for every client.
    pub routes: Router,
    /// Dropping the set ends the poll loop.
    _polling: JoinSet<()>,
}

impl Standalone {
    /// Starts to poll `source`.
    ///
    /// # Errors
    /// When a family of metrics is declared wrongly.
    pub fn start(
        config: Config,
        source: Prometheus,
        inventory: watch::Receiver<Arc<Inventory>>,
    ) -> prometheus::Result<Self> {
        let mut telemetry = Telemetry::new()?;
        telemetry.configuration = Arc::new(config.shown());
        let values = engine::provider(&config);
        let mut polling = JoinSet::new();
        if config.gpus_enabled {
            let served = Arc::clone(&values);
            let engine = Engine::new(config, source, inventory, served, &telemetry);
            polling.spawn(engine.run());
        }
        let provider = Arc::new(Composite::from(Arc::clone(&values)));
        metrics::of_findings(&telemetry.metrics, Arc::clone(&provider));
        Ok(Self {
            values,
            routes: router::open(&Api::new(provider, clock::now, telemetry)),
            _polling: polling,
        })
    }
}
