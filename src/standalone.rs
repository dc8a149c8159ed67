//! GPU metrics of one source and one inventory, without a cluster, for the demonstration.

use std::sync::Arc;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;

use cluster_state::clock;
use configuration::Config;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::snapshot::Snapshot;
use prometheus_source::Prometheus;

use crate::api::{Api, router};
use crate::app::engine::{self, Engine};
use crate::app::finding_reports;
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::telemetry::Telemetry;

/// A running poll loop, which ends on drop, and what it serves.
#[derive(Debug)]
pub struct Standalone {
    values: Arc<GpuProvider>,
    routes: Router,
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
        finding_reports::count_before_scrape(&telemetry.metrics, Arc::clone(&provider));
        let api = Api::new(provider, clock::now, telemetry);
        Ok(Self {
            values,
            routes: router::open(&api),
            _polling: polling,
        })
    }

    /// The metrics APIs, the health and the server's own metrics, for every client.
    pub fn routes(&self) -> Router {
        self.routes.clone()
    }

    /// The newest values; `None` before the first round.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.values.snapshot()
    }
}
