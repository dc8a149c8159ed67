//! GPU metrics by the settings in force, which may change.
//!
//! The engine of new settings runs beside the former engine until it has read its windows
//! back. Until then the former engine polls on and its values are served. Then the
//! provider is swapped and the former engine ends. New settings whose Prometheus does not
//! answer come into force after [`OVERLAP`]: the server serves what the file asks for, or
//! nothing.

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::engine::{Engine, Wiring, provider};
use super::measure;
use crate::provider::gpu::GpuProvider;
use cluster_state::inventory::{WatchSettings, Watches};
use configuration::Config;
use prometheus_source::Prometheus;

/// How long the former settings are served while new ones have no values: twice the time
/// that an engine needs with a source that answers and does not advance.
pub(super) const OVERLAP: Duration = Duration::from_secs(120);

/// How often to check what keeps the cluster's objects from being listed.
const LOOK: Duration = Duration::from_secs(1);

/// How much longer than the longest window departed pods are remembered: their readings
/// may be that late.
const REMEMBERED_BEYOND: Duration = Duration::from_secs(300);

/// How the cluster's objects are read under a configuration.
pub(super) fn watching(config: &Config) -> WatchSettings {
    WatchSettings {
        gpus: config.gpu_resources.clone(),
        exporter_containers: config.exporters.containers.clone(),
        remember: config.policy.max_window + REMEMBERED_BEYOND,
    }
}

/// GPU metrics by one version of the settings.
pub(crate) struct Running {
    /// Has the values, once [`Running::serve`] puts it in force.
    pub(crate) provider: Arc<GpuProvider>,
    /// Becomes true once there are values, or where GPUs are not served.
    ready: watch::Receiver<bool>,
    /// The engine, unless GPUs are not served. It ends when this is dropped.
    polling: JoinSet<()>,
}

impl Running {
    /// Starts the engine of `config`, which reads samples from `sources`.
    pub(crate) fn start(config: Config, sources: Vec<Prometheus>, wiring: &Wiring) -> Self {
        let provider = provider(&config);
        let (_, mut ready) = watch::channel(true);
        let mut polling = JoinSet::new();
        if config.gpus_enabled {
            let engine = Engine::new(config, sources, Arc::clone(&provider), wiring.clone());
            ready = engine.ready();
            polling.spawn(engine.run());
        }
        Self {
            provider,
            ready,
            polling,
        }
    }

    /// Puts its values in force.
    pub(crate) fn serve(&self, wiring: &Wiring) {
        wiring.served.store(Arc::clone(&self.provider));
    }

    /// Waits until there are values, at most for `overlap`.
    async fn ready(&mut self, overlap: Duration) {
        let is_ready = self.ready.wait_for(|ready| *ready);
        if tokio::time::timeout(overlap, is_ready).await.is_err() {
            tracing::warn!(
                "the changed settings of GPU metrics have no values after {} s, so the former \
                 values are no longer served: see the check metrics-source of /readyz",
                overlap.as_secs()
            );
        }
    }
}

/// Keeps GPU metrics by `first` and by each change, until cancelled.
pub(super) async fn run(
    wiring: Wiring,
    watches: Watches,
    overlap: Duration,
    first: (Config, Vec<Prometheus>),
    mut changes: mpsc::UnboundedReceiver<(Config, Vec<Prometheus>)>,
) {
    // The first round computes values for the pods that are listed: without pods it
    // would report ready and answer 404.
    wait_for_objects(&wiring, &watches).await;
    let mut in_force = Running::start(first.0, first.1, &wiring);
    in_force.serve(&wiring);
    while let Some(mut changed) = changes.recv().await {
        tracing::info!(
            "gpu or prometheus of the configuration changed: the former values are served until there are new ones"
        );
        let (next, watched) = loop {
            let (config, sources) = changed;
            let watched = watching(&config);
            let mut next = Running::start(config, sources, &wiring);
            tokio::select! {
                () = next.ready(overlap) => break (next, watched),
                Some(newer) = changes.recv() => changed = newer,
            }
        };
        watches.read_by(watched);
        next.serve(&wiring);
        let mut former = std::mem::replace(&mut in_force, next);
        // After its end it reports nothing.
        former.polling.shutdown().await;
        measure::forget(&wiring.telemetry.metrics);
        if in_force.polling.is_empty() {
            wiring.rest();
        }
        tracing::info!("GPU metrics use the changed settings");
    }
}

/// Waits until the cluster's objects are listed; reports when they may not be read.
async fn wait_for_objects(wiring: &Wiring, watches: &Watches) {
    let mut listed = watches.subscribe();
    let mut said = false;
    while tokio::time::timeout(LOOK, listed.changed()).await.is_err() {
        let Some(why) = watches.unbound() else {
            continue;
        };
        wiring.served.load().tell_unbound(&why);
        if !std::mem::replace(&mut said, true) {
            tracing::warn!("{why}");
        }
    }
}
