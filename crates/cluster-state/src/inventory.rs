//! The cluster's inventory, from watches, published on changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::client::Client;
use super::health::{Need, WatchRegistry};
use super::keeper::{self, CHANGES};
use super::kind_watches;
pub use super::objects::WatchSettings;
use super::snapshot::snapshot;
use super::state::{Collection, WatchedObjects};
use super::watch::{Target, Watcher};
use gpu_metrics::inventory::{Inventory, InventoryOrigin};

/// The watches of a cluster. Dropping this ends them.
#[derive(Debug)]
pub struct Watches {
    inventory: watch::Receiver<Arc<Inventory>>,
    /// Dropping a set ends its tasks.
    tasks: JoinSet<()>,
}

impl Watches {
    /// Starts the watches. kube-apiserver may be down; `registry` reports what is missing.
    /// Call it within a Tokio runtime.
    #[must_use]
    pub fn start(client: &Client, registry: &WatchRegistry, settings: WatchSettings) -> Self {
        let nothing = Inventory {
            authority: InventoryOrigin::Cluster,
            ..Inventory::default()
        };
        let (publisher, inventory) = watch::channel(Arc::new(nothing));
        let (to_follow, followed) = watch::channel(BTreeSet::new());
        let (changes, received) = mpsc::channel(CHANGES);
        let mut tasks = JoinSet::new();
        for (collection, plural, need) in [
            (Collection::Pods, "pods", Need::Required),
            (Collection::Namespaces, "namespaces", Need::Required),
            // Access to nodes is optional: prometheus-adapter's chart does not grant it, and a
            // Deployment of prometheus-adapter with only its image replaced keeps those
            // permissions.
            (Collection::Nodes, "nodes", Need::WhereAllowed),
        ] {
            let reporter = registry.enter(plural, need);
            let target = Target::new(collection, "", "v1", plural);
            let watcher = Watcher::new(client.clone(), target, changes.clone(), reporter);
            tasks.spawn(watcher.run());
        }
        let kinds = kind_watches::run(client.clone(), changes, followed, registry.clone());
        tasks.spawn(kinds);
        let objects = WatchedObjects::new(settings);
        let build = |objects: &mut WatchedObjects| snapshot(objects, Instant::now());
        tasks.spawn(keeper::run(objects, received, publisher, to_follow, build));
        Self { inventory, tasks }
    }

    /// The inventory. It is empty until pods, namespaces and (unless forbidden) nodes have
    /// been listed once, so that no pod is served.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Inventory>> {
        self.inventory.clone()
    }

    /// Runs the watches until one of their tasks ends, which only a fault does.
    pub async fn ended(mut self) {
        let _ = self.tasks.join_next().await;
    }
}
