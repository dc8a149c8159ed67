//! The cluster's inventory, from watches, published on changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::Client;
use super::departed::Departing;
use super::health::{Need, WatchRegistry};
use super::kind_watches;
use super::objects::KeptObject;
pub use super::objects::WatchSettings;
use super::pool::KindName;
use super::snapshot;
use super::state::{Shared, Tables, Writer};
use super::table::{Key, Table};
use super::target::{Form, Target};
use super::watch::Watcher;
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;
use gpu_metrics::inventory::{Inventory, InventoryOrigin};

/// Least time between snapshots: a rollout changes hundreds of pods a second.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// How long the first snapshot waits for the owners of the listed objects.
const OWNERS_WITHIN: Duration = Duration::from_secs(10);

/// How long the first request for the names of a kind waits for its list.
const PATIENCE: Duration = Duration::from_secs(10);

/// Selects the pods to watch. The server serves no metrics of finished pods, and after a
/// batch of jobs they outnumber all others.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The watches of a cluster. Dropping this ends them.
#[derive(Debug)]
pub struct Watches {
    inventory: watch::Receiver<Arc<Inventory>>,
    shared: Arc<Shared>,
    registry: WatchRegistry,
    /// Dropping a set ends its tasks.
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts the watches. kube-apiserver may be down; `registry` reports what is missing.
    /// Call it within a Tokio runtime.
    #[must_use]
    pub fn start(client: &Client, registry: &WatchRegistry, settings: WatchSettings) -> Self {
        let shared = Arc::new(Shared::new(settings));
        let nothing = Inventory {
            authority: InventoryOrigin::Cluster,
            ..Inventory::default()
        };
        let (publisher, inventory) = watch::channel(Arc::new(nothing));
        let mut tasks = JoinSet::new();
        // Access to nodes is optional: prometheus-adapter's chart does not grant it, and a
        // Deployment of prometheus-adapter with only its image replaced keeps those permissions.
        let (required, allowed) = (Need::Required, Need::WhereAllowed);
        let of = (client, registry, &shared);
        let pods = ("pods", Form::Whole, required);
        tasks.spawn(watch(of, pods, |tables| &mut tables.pods));
        let namespaces = ("namespaces", Form::Metadata, required);
        tasks.spawn(watch(of, namespaces, |tables| &mut tables.namespaces));
        let nodes = ("nodes", Form::Metadata, allowed);
        tasks.spawn(watch(of, nodes, |tables| &mut tables.nodes));
        tasks.spawn(kind_watches::run(
            client.clone(),
            Arc::clone(&shared),
            registry.clone(),
        ));
        tasks.spawn(publish(Arc::clone(&shared), publisher));
        Self {
            inventory,
            shared,
            registry: registry.clone(),
            _tasks: tasks,
        }
    }

    /// Changes the settings that objects are reduced with, and lists pods again. The
    /// current objects stay until then.
    pub fn read_by(&self, settings: WatchSettings) {
        if **self.shared.settings.load() != settings {
            self.shared.settings.store(Arc::new(settings));
            self.shared.pods_again.notify_one();
        }
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
        WatchedNames(Arc::clone(&self.shared))
    }

    /// The message about the missing ClusterRoleBinding, if nothing can be listed.
    #[must_use]
    pub fn unbound(&self) -> Option<String> {
        self.registry.unbound()
    }

    /// The inventory for tasks that wait for changes or outlive the watches.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Inventory>> {
        self.inventory.clone()
    }
}

/// The names and labels of objects of any kind. The watch of a kind starts with the first
/// request for it.
#[derive(Clone, Debug)]
pub struct WatchedNames(Arc<Shared>);

impl WatchedNames {
    /// The names of a kind's objects whose labels match, in order; with a namespace,
    /// only those in it. The first request for a kind starts to watch it and waits until
    /// the first attempt to list it has ended. `None`: it cannot be listed, or is not
    /// listed yet; the log says why.
    pub async fn matching(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Option<Vec<Arc<str>>> {
        if !kind.watchable {
            return None;
        }
        let name = KindName::new(&kind.group, &kind.kind);
        if self.0.known.lock().tables.kinds.request(&name) {
            self.0.kinds_changed.notify_one();
        }
        let settled = tokio::time::timeout(PATIENCE, self.settled(&name)).await;
        let mut known = self.0.known.lock();
        let objects = &mut known.tables.kinds.get_mut(&name)?.objects;
        if settled.is_err() {
            // Later requests do not wait for a list that takes this long.
            objects.settled = true;
            self.0.settled.notify_waiters();
        }
        let is_it = |(key, object): &(&Key, &KeptObject)| {
            namespace.is_none_or(|namespace| *key.0 == *namespace)
                && selector.matches(&object.labels)
        };
        objects.complete.then(|| {
            let matching = objects.iter().filter(is_it);
            matching.map(|(key, _)| Arc::clone(&key.1)).collect()
        })
    }

    async fn settled(&self, name: &KindName) {
        loop {
            let notified = self.0.settled.notified();
            if self.0.known.lock().tables.kinds.is_settled(name) {
                return;
            }
            notified.await;
        }
    }
}

/// Starts a watch of a collection of the core group.
fn watch<V: Departing + Send + 'static>(
    (client, registry, shared): (&Client, &WatchRegistry, &Arc<Shared>),
    (resource, form, need): (&'static str, Form, Need),
    table: fn(&mut Tables) -> &mut Table<V>,
) -> impl Future<Output = ()> + Send + use<V> {
    let mut target = Target::new("", "v1", resource, form);
    let mut again = Arc::default();
    if resource == "pods" {
        target.fields = UNFINISHED;
        again = Arc::clone(&shared.pods_again);
    }
    let writer = Writer::new(Arc::clone(shared), move |tables| Some(table(tables)));
    let reporter = registry.enter(resource, need);
    let mut watcher = Watcher::new(client.clone(), target, writer, reporter);
    watcher.again = again;
    watcher.run_on()
}

async fn publish(shared: Arc<Shared>, publisher: watch::Sender<Arc<Inventory>>) {
    let mut listed: Option<Instant> = None;
    let mut published = false;
    loop {
        // The timeout makes a snapshot even without a change, until the first one is published.
        let wait = if published {
            Duration::MAX
        } else {
            PUBLISH_EVERY
        };
        let _ = tokio::time::timeout(wait, shared.changed.notified()).await;
        // A snapshot of a large cluster, or of one with many invented objects, takes long
        // enough to delay requests. It is therefore made on a blocking thread.
        let from = Arc::clone(&shared);
        let Ok(made) = tokio::task::spawn_blocking(move || snapshot(&from)).await else {
            continue;
        };
        let Some((inventory, settled)) = made else {
            continue;
        };
        let listed = listed.get_or_insert_with(Instant::now);
        if published || settled || listed.elapsed() >= OWNERS_WITHIN {
            published = true;
            let before = publisher.send_replace(Arc::new(inventory));
            tokio::task::spawn_blocking(move || drop(before));
        }
        tokio::time::sleep(PUBLISH_EVERY).await;
    }
}

/// A snapshot, and whether the lists of all followed kinds have been tried. `None`: the
/// required collections are not listed yet.
fn snapshot(shared: &Shared) -> Option<(Inventory, bool)> {
    let mut known = shared.known.lock();
    if !is_listed(&known.tables) {
        return None;
    }
    let now = Instant::now();
    let (inventory, used) = snapshot::inventory(&mut known, now, shared.settings.load().remember);
    let kinds = &mut known.tables.kinds;
    if kinds.set_used(used, now) {
        shared.kinds_changed.notify_one();
    }
    Some((inventory, kinds.are_settled()))
}

/// Whether a snapshot can be made. It does not wait for nodes if they are forbidden.
const fn is_listed(tables: &Tables) -> bool {
    let nodes = tables.nodes.complete || tables.nodes.forbidden;
    tables.pods.complete && tables.namespaces.complete && nodes
}
