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

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::engine::Checks;
use super::{Engine, EngineSettings};
use crate::provider::gpu::{GpuProvider, ServedProvider};
use crate::telemetry::Telemetry;
use cluster_state::inventory::{WatchSettings, Watches};
use configuration::Config;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline;
use gpu_metrics::policy::MetricSpec;
use prometheus_source::Source;

/// How long the former settings are served while new ones have no values: twice the time
/// that an engine needs with a source that answers and does not advance.
const OVERLAP: Duration = Duration::from_secs(120);

/// How often to check what keeps the cluster's objects from being listed.
const LOOK: Duration = Duration::from_secs(1);

/// How much longer than the longest window departed pods are remembered: their readings
/// may be that late.
const REMEMBERED_BEYOND: Duration = Duration::from_secs(300);

/// The settings of GPU metrics.
#[derive(Debug)]
pub(super) struct GpuSettings {
    /// The configuration; its rules are not used.
    pub(super) config: Config,
    /// Where samples come from.
    pub(super) source: Source,
}

/// How the cluster's objects are read under a configuration.
pub(super) fn watching(config: &Config) -> WatchSettings {
    WatchSettings {
        gpus: config.gpu_resources.clone(),
        exporter_containers: config.exporters.containers.clone(),
        remember: config.policy.max_window + REMEMBERED_BEYOND,
    }
}

/// A provider of a configuration's metrics, without values yet.
fn provider(config: &Config) -> (Arc<GpuProvider>, Vec<MetricSpec>) {
    let specs = metrics::built_in().into_iter();
    let mut specs: Vec<MetricSpec> = specs.chain(config.metrics.clone()).collect();
    specs.retain(|_| config.gpus_enabled);
    let provider = GpuProvider::new(&specs).requested_by(&config.gpu_resources);
    (Arc::new(provider), specs)
}

/// The tasks and objects of one version of the settings.
struct Running {
    provider: Arc<GpuProvider>,
    watching: WatchSettings,
    /// `None`: GPUs are not served.
    engine: Option<RunningEngine>,
}

/// An engine; it ends when this is dropped.
struct RunningEngine {
    ready: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
    polling: JoinHandle<()>,
}

impl Running {
    /// Waits until there are values, at most for `overlap`.
    async fn ready(&mut self, overlap: Duration) {
        let Some(engine) = &mut self.engine else {
            return;
        };
        let is_ready = engine.ready.wait_for(|ready| *ready);
        if tokio::time::timeout(overlap, is_ready).await.is_err() {
            tracing::warn!(
                "the changed settings of GPU metrics have no values after {} s, and the former values end: the \
                 check metrics-source of /readyz says why",
                overlap.as_secs()
            );
        }
    }
}

impl RunningEngine {
    /// Ends it, and waits for the end: it reports nothing afterwards.
    async fn end(self) {
        drop(self.stop);
        // A panic in it has been logged already.
        let _ = self.polling.await;
    }
}

/// Keeps GPU metrics by the settings in force.
#[derive(Debug)]
pub(super) struct Gpus {
    served: ServedProvider,
    checks: Checks,
    watches: Watches,
    relist: Duration,
    overlap: Duration,
    telemetry: Telemetry,
}

impl Gpus {
    /// No engine runs yet; discovery shows the metrics of `config`.
    pub(super) fn new(
        config: &Config,
        watches: Watches,
        relist: Duration,
        telemetry: Telemetry,
    ) -> Self {
        let (provider, _) = provider(config);
        let served: ServedProvider = Arc::new(ArcSwap::new(provider));
        let checks = Checks::register(&telemetry.health, &served);
        if !config.gpus_enabled {
            checks.rest();
        }
        Self {
            served,
            checks,
            watches,
            relist,
            overlap: OVERLAP,
            telemetry,
        }
    }

    /// The provider in force.
    pub(super) fn served(&self) -> ServedProvider {
        Arc::clone(&self.served)
    }

    /// Runs by `settings`, and by each change, until cancelled.
    pub(super) async fn run(
        self,
        settings: GpuSettings,
        mut changes: mpsc::UnboundedReceiver<GpuSettings>,
    ) {
        // The first round computes values for the pods that are listed: without pods it
        // would report ready and answer 404.
        self.wait_for_objects().await;
        let mut in_force = self.start(settings);
        self.put_in_force(&in_force);
        while let Some(mut changed) = changes.recv().await {
            tracing::info!(
                "gpu or prometheus of the configuration changed: the former values stand until the new ones are there"
            );
            let next = loop {
                let mut next = self.start(changed);
                tokio::select! {
                    () = next.ready(self.overlap) => break next,
                    Some(newer) = changes.recv() => changed = newer,
                }
            };
            self.put_in_force(&next);
            let former = std::mem::replace(&mut in_force, next);
            if let Some(engine) = former.engine {
                engine.end().await;
            }
            self.telemetry.metrics.polls().forget();
            if in_force.engine.is_none() {
                self.checks.rest();
            }
            tracing::info!("GPU metrics by the changed settings are in force");
        }
        // They can no longer change.
        std::future::pending::<()>().await;
        drop(in_force);
    }

    /// Waits until the cluster's objects are listed; reports when they may not be read.
    async fn wait_for_objects(&self) {
        let mut listed = self.watches.subscribe();
        let mut said = false;
        while tokio::time::timeout(LOOK, listed.changed()).await.is_err() {
            let Some(why) = self.watches.unbound() else {
                continue;
            };
            self.served.load().tell_unbound(&why);
            if !std::mem::replace(&mut said, true) {
                tracing::warn!("{why}");
            }
        }
    }

    fn start(&self, settings: GpuSettings) -> Running {
        let GpuSettings { config, source } = settings;
        let watching = watching(&config);
        let (provider, specs) = provider(&config);
        if !config.gpus_enabled {
            return Running {
                provider,
                watching,
                engine: None,
            };
        }
        let inventory = self.watches.subscribe();
        let engine = Engine::new(EngineSettings {
            pipeline: pipeline::Settings {
                policy: config.policy,
                signals: config.signals,
                metrics: specs,
                exporter: config.exporters,
            },
            source,
            inventory: Box::new(move |_| -> Arc<Inventory> { Arc::clone(&inventory.borrow()) }),
            poll: config.poll,
            relist: self.relist,
            provider: Arc::clone(&provider),
            served: Arc::clone(&self.served),
            checks: self.checks.clone(),
            telemetry: self.telemetry.clone(),
        });
        let (stop, stopped) = watch::channel(false);
        let engine = RunningEngine {
            ready: engine.ready(),
            stop,
            polling: tokio::spawn(engine.run(stopped)),
        };
        Running {
            provider,
            watching,
            engine: Some(engine),
        }
    }

    fn put_in_force(&self, next: &Running) {
        self.watches.read_by(next.watching.clone());
        self.served.store(Arc::clone(&next.provider));
    }
}
