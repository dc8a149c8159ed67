//! The watches of the followed kinds ([`super::kinds`]). Each kind is looked up in discovery,
//! and the metadata of its objects is watched.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::client::Client;
use super::health::{Need, Reporter, WatchRegistry};
use super::kinds::entry;
use super::pool::KindName;
use super::served;
use super::state::{Change, Collection, Event};
use super::watch::{Feed, NOT_SERVED, Target, Watcher};
use apimachinery::kinds::{Kind, Kinds};
use gpu_metrics::inventory::ObjectKind;

/// The least time between two reads of discovery. Users with the right to write pods can
/// name kinds that do not exist, and each new one causes a read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// The pause before a failed read is repeated.
const RETRY: Duration = Duration::from_secs(10);

/// The pause before a kind that is not served is looked up again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

enum KindWatch {
    /// Discovery does not have the kind, or it cannot be watched.
    NotServed,
    /// The task of the watch. It ends when the kind is no longer served.
    Task(AbortHandle),
}

impl Drop for KindWatch {
    fn drop(&mut self) {
        if let Self::Task(task) = self {
            task.abort();
        }
    }
}

impl KindWatch {
    fn has_ended(&self) -> bool {
        matches!(self, Self::Task(task) if task.is_finished())
    }
}

struct KindWatches {
    client: Client,
    changes: mpsc::Sender<Change>,
    registry: WatchRegistry,
    /// The kinds of the cluster, as last read.
    served: Kinds,
    /// When discovery may be read again.
    next: Instant,
    watches: BTreeMap<KindName, KindWatch>,
    tasks: JoinSet<()>,
    /// Reports that discovery cannot be read.
    reporter: Option<Reporter>,
}

/// Watches the followed kinds, until the watches end.
pub(super) async fn run(
    client: Client,
    changes: mpsc::Sender<Change>,
    mut followed: watch::Receiver<BTreeSet<KindName>>,
    registry: WatchRegistry,
) {
    let mut kinds = KindWatches {
        client,
        changes,
        registry,
        served: Kinds::default(),
        next: Instant::now(),
        watches: BTreeMap::new(),
        tasks: JoinSet::new(),
        reporter: None,
    };
    let mut again = tokio::time::interval(ASK_AGAIN);
    loop {
        let names = followed.borrow_and_update().clone();
        if !kinds.update(&names).await {
            continue;
        }
        tokio::select! {
            changed = followed.changed() => if changed.is_err() {
                return;
            },
            // A watch ends when its kind is no longer served.
            Some(_) = kinds.tasks.join_next() => kinds.served = Kinds::default(),
            _ = again.tick() => {
                kinds.watches.retain(|_, watch| !matches!(watch, KindWatch::NotServed));
            }
        }
    }
}

impl KindWatches {
    /// Starts the watches of the kinds that have none, and ends the others. Returns whether
    /// discovery could be read.
    async fn update(&mut self, followed: &BTreeSet<KindName>) -> bool {
        self.watches
            .retain(|name, watch| followed.contains(name) && !watch.has_ended());
        let mut missing = Vec::new();
        for name in followed {
            if !self.watches.contains_key(name) && !self.start(name).await {
                missing.push(name);
            }
        }
        if missing.is_empty() {
            self.reporter = None;
            return true;
        }
        tokio::time::sleep_until(self.next).await;
        match served::kinds(&self.client).await {
            Ok(kinds) => {
                self.next = Instant::now() + READ_EVERY;
                self.served = kinds;
                for name in missing {
                    if !self.start(name).await {
                        self.watches.insert(name.clone(), KindWatch::NotServed);
                        self.send(Change::NotServed(name.clone())).await;
                    }
                }
                self.reporter = None;
                true
            }
            Err(error) => {
                self.next = Instant::now() + RETRY;
                for name in missing {
                    // Neither the first snapshot nor a request waits for the kind.
                    let failed = Event::Failed {
                        is_forbidden: false,
                    };
                    let collection = Collection::Kind(name.clone());
                    self.send(Change::Objects(collection, failed)).await;
                }
                let enter = || self.registry.enter("owners", Need::Optional);
                self.reporter.get_or_insert_with(enter).failed(&error);
                false
            }
        }
    }

    /// Starts the watch of a kind; `false`: discovery does not have it, as last read.
    async fn start(&mut self, name: &KindName) -> bool {
        let is_it =
            |kind: &&Kind| kind.watchable && kind.group == name.group && kind.kind == name.kind;
        let Some(kind) = self.served.iter().find(is_it) else {
            return false;
        };
        let version = kind.api_version();
        let resource = ObjectKind::new(&kind.resource(), &kind.kind, &version, kind.namespaced);
        let reporter = self.registry.enter(&entry(&resource), Need::Optional);
        let target = Target::new(&kind.group, &version, &kind.plural);
        let of = name.clone();
        let feed = Feed::new(self.changes.clone(), move |event| {
            Change::Objects(Collection::Kind(of.clone()), event)
        });
        let mut watcher = Watcher::new(self.client.clone(), target, feed, reporter);
        self.send(Change::Served(name.clone(), resource)).await;
        let task = self.tasks.spawn(async move {
            watcher.run().await;
            // Discovery still lists a kind for a moment after it is no longer served.
            tokio::time::sleep(NOT_SERVED).await;
        });
        self.watches.insert(name.clone(), KindWatch::Task(task));
        true
    }

    /// An error means that the watches have ended.
    async fn send(&self, change: Change) {
        let _ = self.changes.send(change).await;
    }
}
