//! The cluster's inventory, from watches, published on changes.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, mpsc, watch};
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
use super::watch::{Content, Feed, Target, Watcher};
use gpu_metrics::inventory::Inventory;

/// Selects the pods to watch. The server serves no metrics of finished pods, and after a
/// batch of jobs they outnumber all others.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The watches of a cluster. Dropping this ends them.
#[derive(Debug)]
pub struct Watches {
    inventory: watch::Receiver<Arc<Inventory>>,
    names: WatchedNames,
    registry: WatchRegistry,
    settings: watch::Sender<WatchSettings>,
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
            pods_again: Arc::default(),
            tasks: JoinSet::new(),
        };
        // Access to nodes is optional: prometheus-adapter's chart does not grant it, and a
        // Deployment of prometheus-adapter with only its image replaced keeps those permissions.
        start.watch("pods", Need::Required, Change::Pods);
        start.watch("namespaces", Need::Required, |event| {
            Change::Objects(Collection::Namespaces, event)
        });
        start.watch("nodes", Need::WhereAllowed, |event| {
            Change::Objects(Collection::Nodes, event)
        });
        let again = Arc::clone(&start.pods_again);
        let mut tasks = start.tasks;
        let kinds = kind_watches::run(client.clone(), changes.clone(), followed, registry.clone());
        tasks.spawn(kinds);
        let (settings, changed) = watch::channel(settings);
        tasks.spawn(list_again(changed, changes.clone(), again));
        let objects = WatchedObjects::new(settings.borrow().clone());
        let build = |objects: &mut WatchedObjects| Snapshot::new(objects, Instant::now());
        tasks.spawn(keeper::run(objects, received, publisher, build));
        Self {
            inventory,
            names: WatchedNames { published, changes },
            registry: registry.clone(),
            settings,
            tasks,
        }
    }

    /// Changes the settings that objects are reduced with, and lists pods again. The
    /// current objects stay until then.
    pub fn read_by(&self, settings: WatchSettings) {
        self.settings.send_if_modified(|known| {
            let is_new = *known != settings;
            *known = settings;
            is_new
        });
    }

    /// The current inventory. It is empty until pods, namespaces and (unless forbidden)
    /// nodes have been listed once, so that no pod is served.
    #[must_use]
    pub fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory.borrow())
    }

    /// The names of objects of any kind. They are kept up to date as long as the watches last.
    #[must_use]
    pub fn names(&self) -> WatchedNames {
        self.names.clone()
    }

    /// The message about the missing ClusterRoleBinding, if nothing can be listed.
    #[must_use]
    pub fn unbound(&self) -> Option<String> {
        self.registry.unbound()
    }

    /// Runs the watches until one of their tasks ends, which only a fault does.
    pub async fn ended(mut self) {
        let _ = self.tasks.join_next().await;
    }

    /// The inventory for tasks that wait for changes or outlive the watches.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Inventory>> {
        self.inventory.clone()
    }
}

/// Follows the settings.
async fn list_again(
    mut settings: watch::Receiver<WatchSettings>,
    changes: mpsc::Sender<Change>,
    pods_again: Arc<Notify>,
) {
    while settings.changed().await.is_ok() {
        let changed = settings.borrow_and_update().clone();
        if changes.send(Change::Settings(changed)).await.is_err() {
            return;
        }
        pods_again.notify_one();
    }
}

/// What the watches of the core group start with.
struct Start<'a> {
    client: &'a Client,
    registry: &'a WatchRegistry,
    changes: &'a mpsc::Sender<Change>,
    /// Notified when the pods are to be listed again.
    pods_again: Arc<Notify>,
    tasks: JoinSet<()>,
}

impl Start<'_> {
    fn watch<V: Departing + Send + 'static>(
        &mut self,
        resource: &'static str,
        need: Need,
        change: fn(Event<V>) -> Change,
    ) {
        let content = match resource {
            "pods" => Content::Whole,
            _ => Content::Metadata,
        };
        let mut target = Target::new("", "v1", resource, content);
        if resource == "pods" {
            target.fields = UNFINISHED;
        }
        let reporter = self.registry.enter(resource, need);
        let feed = Feed::new(self.changes.clone(), change);
        let mut watcher = Watcher::new(self.client.clone(), target, feed, reporter);
        if resource == "pods" {
            watcher.again = Arc::clone(&self.pods_again);
        }
        self.tasks.spawn(watcher.run_on());
    }
}
