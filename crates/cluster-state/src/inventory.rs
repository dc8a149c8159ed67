//! The cluster's inventory, from watches, published on changes.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::client::Client;
use super::departed::Departing;
use super::health::{Need, WatchRegistry};
use super::keeper::{self, CHANGES, Publisher};
use super::kind_watches;
pub use super::names::WatchedNames;
pub use super::objects::WatchSettings;
use super::snapshot::Snapshot;
use super::state::{Change, Collection, Event, WatchedObjects};
use super::watch::{Feed, Target, Watcher};
use gpu_metrics::inventory::Inventory;

/// The watches of a cluster. Dropping this ends them.
#[derive(Debug)]
pub struct Watches {
    inventory: watch::Receiver<Arc<Inventory>>,
    names: WatchedNames,
    /// Dropping a set ends its tasks.
    tasks: JoinSet<()>,
}

impl Watches {
    /// Starts the watches. kube-apiserver may be down; `registry` reports what is missing.
    /// Call it within a Tokio runtime.
    #[must_use]
    pub fn start(client: &Client, registry: &WatchRegistry, settings: WatchSettings) -> Self {
        let publisher = Publisher::new(registry.clone());
        let inventory = publisher.inventory.subscribe();
        let published = publisher.requested.subscribe();
        let followed = publisher.followed.subscribe();
        let (changes, received) = mpsc::channel(CHANGES);
        let mut start = Start {
            client,
            registry,
            changes: &changes,
            tasks: JoinSet::new(),
        };
        start.watch("pods", Target::pods(), Need::Required, Change::Pods);
        let namespaces = Target::new("", "v1", "namespaces");
        start.watch("namespaces", namespaces, Need::Required, |event| {
            Change::Objects(Collection::Namespaces, event)
        });
        // Access to nodes is optional: prometheus-adapter's chart does not grant it, and a
        // Deployment of prometheus-adapter with only its image replaced keeps those permissions.
        let nodes = Target::new("", "v1", "nodes");
        start.watch("nodes", nodes, Need::WhereAllowed, |event| {
            Change::Objects(Collection::Nodes, event)
        });
        let mut tasks = start.tasks;
        let kinds = kind_watches::run(client.clone(), changes.clone(), followed, registry.clone());
        tasks.spawn(kinds);
        let objects = WatchedObjects::new(settings);
        let build = |objects: &mut WatchedObjects| Snapshot::new(objects, Instant::now());
        tasks.spawn(keeper::run(objects, received, publisher, build));
        Self {
            inventory,
            names: WatchedNames { published, changes },
            tasks,
        }
    }

    /// The names of objects of any kind. They are kept up to date as long as the watches last.
    #[must_use]
    pub fn names(&self) -> WatchedNames {
        self.names.clone()
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

/// What the watches of the core group start with.
struct Start<'a> {
    client: &'a Client,
    registry: &'a WatchRegistry,
    changes: &'a mpsc::Sender<Change>,
    tasks: JoinSet<()>,
}

impl Start<'_> {
    fn watch<V: Departing + Send + 'static>(
        &mut self,
        name: &'static str,
        target: Target,
        need: Need,
        change: fn(Event<V>) -> Change,
    ) {
        let reporter = self.registry.enter(name, need);
        let feed = Feed::new(self.changes.clone(), change);
        let watcher = Watcher::new(self.client.clone(), target, feed, reporter);
        self.tasks.spawn(watcher.run_on());
    }
}
