//! GPU metrics with the settings in force, which may change.
//!
//! After a change, the engine of the new settings runs beside the former engine until it
//! has read the samples of its windows. Until then the former engine continues to poll and
//! its values are served. Then the provider is swapped and the former engine ends. If the
//! new Prometheus does not answer, the new settings come into force after [`OVERLAP`],
//! without values: from then on the server serves no values of the former settings.

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

/// How long the former settings are served while the new ones have no values. It is twice
/// the time that an engine needs if its source answers but has no newer samples.
pub(super) const OVERLAP: Duration = Duration::from_secs(120);

/// How often to check why the cluster's objects cannot be listed.
const LOOK: Duration = Duration::from_secs(1);

/// How much longer than the longest window deleted pods are kept, because samples may
/// arrive this late.
const REMEMBERED_BEYOND: Duration = Duration::from_secs(300);

/// The watch settings of a configuration.
pub(super) fn watching(config: &Config) -> WatchSettings {
    WatchSettings {
        gpus: config.gpu_resources.clone(),
        exporter_containers: config.exporters.containers.clone(),
        remember: config.policy.max_window + REMEMBERED_BEYOND,
    }
}

/// GPU metrics with one version of the settings.
#[derive(Debug)]
pub(crate) struct Running {
    /// Serves the values after [`Running::serve`].
    pub(crate) provider: Arc<GpuProvider>,
    /// Becomes true when there are values, or if GPUs are not served.
    ready: watch::Receiver<bool>,
    /// The engine; empty: GPUs are not served. Dropping it ends the engine.
    polling: JoinSet<()>,
}

impl Running {
    /// Starts the engine of `config`, which reads samples from `prometheus`.
    pub(crate) fn start(config: Config, prometheus: Prometheus, wiring: &Wiring) -> Self {
        let provider = provider(&config);
        let (_, mut ready) = watch::channel(true);
        let mut polling = JoinSet::new();
        if config.gpus_enabled {
            let engine = Engine::new(config, prometheus, Arc::clone(&provider), wiring.clone());
            ready = engine.ready();
            polling.spawn(engine.run());
        }
        Self {
            provider,
            ready,
            polling,
        }
    }

    /// Makes the server use its provider.
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

/// Serves GPU metrics with `first` and then with each change, until cancelled.
pub(super) async fn run(
    wiring: Wiring,
    watches: Watches,
    overlap: Duration,
    first: (Config, Prometheus),
    mut changes: mpsc::UnboundedReceiver<(Config, Prometheus)>,
) {
    // The first round computes values for the listed pods. Without pods the server would
    // report ready and answer 404.
    wait_for_objects(&wiring, &watches).await;
    let mut in_force = Running::start(first.0, first.1, &wiring);
    in_force.serve(&wiring);
    while let Some(mut changed) = changes.recv().await {
        tracing::info!(
            "gpu or prometheus of the configuration changed: the former values are served until there are new ones"
        );
        let (next, watched) = loop {
            let (config, prometheus) = changed;
            let watched = watching(&config);
            let mut next = Running::start(config, prometheus, &wiring);
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

/// Waits until the cluster's objects are listed. Reports if the server may not read them.
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
