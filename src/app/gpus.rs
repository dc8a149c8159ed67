//! GPU metrics: the poll loop and its inventory.

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::engine::{Engine, Wiring};
use cluster_state::health::WatchRegistry;
use cluster_state::inventory::WatchSettings;
use configuration::Config;
use gpu_metrics::inventory::Inventory;

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

/// Polls until cancelled. The first round computes values for the listed pods: without
/// pods the server would report ready and answer 404.
pub(super) async fn poll(
    engine: Engine,
    wiring: Wiring,
    mut inventory: watch::Receiver<Arc<Inventory>>,
    registry: WatchRegistry,
) {
    while tokio::time::timeout(LOOK, inventory.changed())
        .await
        .is_err()
    {
        if let Some(why) = registry.forbidden_pods() {
            wiring.provider.tell_forbidden(&why);
        }
    }
    engine.run().await;
}
