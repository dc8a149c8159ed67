//! The cluster's inventory by watches, published when it changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::client::Client;
use super::health::{Need, WatchRegistry};
use super::owners;
pub use super::settings::WatchSettings;
use super::snapshot;
use super::state::{Shared, Tables, Writer};
use super::store::{Form, Store, Target};
use super::watch::{WAIT_MOST, Watcher};
use gpu_metrics::inventory::{Authority, Inventory};

/// Snapshots are made no sooner after one another: a rollout changes hundreds
/// of pods a second.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// How long the first snapshot waits for the owners of what was listed.
const OWNERS_WITHIN: Duration = Duration::from_secs(10);

/// The pods that are worth watching; those that have finished are in no answer
/// and, after a batch of jobs, more than all others.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The watches of a cluster. They end when this is dropped.
#[derive(Debug)]
pub struct Watches {
    inventory: watch::Receiver<Arc<Inventory>>,
    shared: Arc<Shared>,
    registry: WatchRegistry,
    /// Dropping a set ends its tasks.
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts watching. kube-apiserver need not be up; `registry` says what is
    /// waited for. To be called within a runtime.
    #[must_use]
    pub fn start(client: &Client, registry: &WatchRegistry, settings: WatchSettings) -> Self {
        let shared = Arc::new(Shared::new(settings));
        let nothing = Inventory {
            authority: Authority::Cluster,
            ..Inventory::default()
        };
        let (publisher, inventory) = watch::channel(Arc::new(nothing));
        let mut tasks = JoinSet::new();
        let pods = Writer::new(Arc::clone(&shared), |tables| Some(&mut tables.pods));
        let namespaces = Writer::new(Arc::clone(&shared), |tables| Some(&mut tables.namespaces));
        let nodes = Writer::new(Arc::clone(&shared), |tables| Some(&mut tables.nodes));
        let services = Writer::new(Arc::clone(&shared), |tables| Some(&mut tables.services));
        let again = Arc::clone(&shared.pods_again);
        // prometheus-adapter's chart grants no nodes, and its users keep what
        // was granted when they change the image.
        let (required, allowed) = (Need::Required, Need::WhereAllowed);
        let of_pods = ("pods", Form::Whole, required);
        tasks.spawn(watch(client, registry, of_pods, pods, Some(again)));
        let of_namespaces = ("namespaces", Form::Metadata, required);
        tasks.spawn(watch(client, registry, of_namespaces, namespaces, None));
        let of_nodes = ("nodes", Form::Metadata, allowed);
        tasks.spawn(watch(client, registry, of_nodes, nodes, None));
        let of_services = ("services", Form::Whole, allowed);
        tasks.spawn(watch(client, registry, of_services, services, None));
        tasks.spawn(owners::run(
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

    /// Reads objects by other settings. Pods are listed again for it; what is
    /// known of them stays until then.
    pub fn read_by(&self, settings: WatchSettings) {
        if **self.shared.settings.load() != settings {
            self.shared.settings.store(Arc::new(settings));
            self.shared.pods_again.notify_one();
        }
    }

    /// The inventory in force. Until pods, namespaces and nodes were listed
    /// once it is empty and the cluster's word, so that no pod is served.
    #[must_use]
    pub fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory.borrow())
    }

    /// The ClusterRoleBinding without which nothing can be listed, if it is
    /// missing.
    #[must_use]
    pub fn unbound(&self) -> Option<String> {
        self.registry.unbound()
    }

    /// The same for tasks that wait for changes, or outlive the watches.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Inventory>> {
        self.inventory.clone()
    }
}

/// Watches a collection of the core group, for ever; `again` has it listed anew.
fn watch<S: Store>(
    client: &Client,
    registry: &WatchRegistry,
    (resource, form, need): (&'static str, Form, Need),
    store: S,
    again: Option<Arc<Notify>>,
) -> impl Future<Output = ()> + Send + use<S> {
    let target = Target {
        path: format!("/api/v1/{resource}"),
        fields: if resource == "pods" { UNFINISHED } else { "" },
        form,
        remedy: owners::remedy("", resource),
        wait_most: WAIT_MOST,
    };
    let reporter = registry.enter(resource, need);
    let mut watcher = Watcher::new(client.clone(), target, store, reporter);
    watcher.again = again;
    watcher.run_on()
}

async fn publish(shared: Arc<Shared>, publisher: watch::Sender<Arc<Inventory>>) {
    let mut listed: Option<Instant> = None;
    let mut published = false;
    loop {
        // The first snapshot also waits for time to pass.
        let wait = if published {
            Duration::MAX
        } else {
            PUBLISH_EVERY
        };
        let _ = tokio::time::timeout(wait, shared.changed.notified()).await;
        // Of a large cluster, or of one that somebody filled, it takes long
        // enough to hold up requests.
        let from = Arc::clone(&shared);
        let Ok(made) = tokio::task::spawn_blocking(move || snapshot(&from)).await else {
            continue;
        };
        let Some(Made { inventory, settled }) = made else {
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

/// A snapshot.
struct Made {
    inventory: Inventory,
    /// Whether the owners of what was listed are known as far as they can be.
    settled: bool,
}

/// `None`: there is nothing to make it of so far.
fn snapshot(shared: &Shared) -> Option<Made> {
    let mut known = shared.lock();
    if !is_listed(&known.tables) {
        return None;
    }
    let now = Instant::now();
    let (inventory, used) = snapshot::inventory(&mut known, now, shared.settings.load().remember);
    let kinds = &mut known.tables.kinds;
    if kinds.set_used(used, now) {
        shared.kinds_changed.notify_one();
    }
    Some(Made {
        inventory,
        settled: kinds.is_settled(),
    })
}

/// Whether there is something to make a snapshot of. Services are left to
/// readiness: without them everything else is right. Nodes that may not be seen
/// are not waited for.
const fn is_listed(tables: &Tables) -> bool {
    let nodes = tables.nodes.complete || tables.nodes.forbidden;
    tables.pods.complete && tables.namespaces.complete && nodes
}
