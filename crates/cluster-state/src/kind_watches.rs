//! The watches of the followed kinds ([`super::kinds`]). Each kind is looked up in discovery,
//! and the metadata of its objects is watched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::error::CallError;
use super::health::{Need, WatchRegistry};
use super::pool::KindName;
use super::served;
use super::state::{Change, Collection, Event};
use super::watch::{NOT_SERVED, Target, Watcher};
use apimachinery::kinds::{Kind, Kinds};
use gpu_metrics::inventory::ObjectKind;

/// How long a read of discovery is used. Users with the right to write pods can name kinds
/// that do not exist, and each new one causes a read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// The pause before a failed read is repeated.
const RETRY: Duration = Duration::from_secs(10);

/// The pause before a kind that is not served is looked up again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Watches the followed kinds. It ends when the keeper of the objects ends, or a watch
/// panics.
pub(super) async fn run(
    client: Client,
    changes: mpsc::Sender<Change>,
    mut followed: watch::Receiver<BTreeSet<KindName>>,
    registry: WatchRegistry,
) {
    let kinds = Arc::new(KindWatches {
        client,
        changes,
        registry,
        discovery: Mutex::default(),
    });
    let mut tasks = JoinSet::new();
    let mut watches: BTreeMap<KindName, AbortHandle> = BTreeMap::new();
    loop {
        let names = followed.borrow_and_update().clone();
        watches.retain(|name, task| {
            let stays = names.contains(name);
            if !stays {
                task.abort();
            }
            stays
        });
        for name in names {
            watches.entry(name).or_insert_with_key(|name| {
                let (kinds, name) = (Arc::clone(&kinds), name.clone());
                tasks.spawn(async move { kinds.watch(&name).await })
            });
        }
        tokio::select! {
            changed = followed.changed() => if changed.is_err() {
                return;
            },
            Some(ended) = tasks.join_next() => if ended.is_err_and(|error| error.is_panic()) {
                return;
            },
        }
    }
}

struct KindWatches {
    client: Client,
    changes: mpsc::Sender<Change>,
    registry: WatchRegistry,
    discovery: Mutex<Discovery>,
}

/// When discovery was last read, and its kinds.
type Discovery = Option<(Instant, Result<Kinds, CallError>)>;

impl KindWatches {
    /// Watches a kind without end.
    async fn watch(&self, name: &KindName) {
        loop {
            match self.look_up(name).await {
                Ok(Some(kind)) => {
                    self.watch_served(name, &kind).await;
                    // Discovery still lists a kind for a moment after it is no longer served.
                    sleep(NOT_SERVED).await;
                }
                Ok(None) => {
                    self.send(name, Event::NotServed).await;
                    sleep(ASK_AGAIN).await;
                }
                Err(_) => {
                    // The first snapshot does not wait for the kind.
                    let is_forbidden = false;
                    self.send(name, Event::Failed { is_forbidden }).await;
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Looks a kind up in discovery; `None`: it is not there, or cannot be watched.
    async fn look_up(&self, name: &KindName) -> Result<Option<Kind>, CallError> {
        let mut discovery = self.discovery.lock().await;
        let recent = discovery.take();
        let recent = recent.filter(|(at, _)| at.elapsed() < READ_EVERY);
        let recent = match recent {
            Some(recent) => recent,
            None => {
                let kinds = served::kinds(&self.client).await;
                (Instant::now(), kinds)
            }
        };
        let (_, kinds) = discovery.insert(recent);
        let is_it =
            |kind: &&Kind| kind.watchable && kind.group == name.group && kind.kind == name.kind;
        let kinds = kinds.as_ref().map_err(Clone::clone)?;
        Ok(kinds.iter().find(is_it).cloned())
    }

    /// Watches a kind until it is no longer served.
    async fn watch_served(&self, name: &KindName, kind: &Kind) {
        let version = kind.api_version();
        let resource = ObjectKind::new(&kind.resource(), &kind.kind, &version, kind.namespaced);
        self.send(name, Event::Served(resource)).await;
        // A kind of the core group may have the name of another watch, such as `pods`.
        let entry = match kind.group.is_empty() {
            true => format!("objects of {}", kind.plural),
            false => kind.resource().to_string(),
        };
        let reporter = self.registry.enter(&entry, Need::Optional);
        let collection = Collection::Kind(name.clone());
        let target = Target::new(collection, &kind.group, &version, &kind.plural);
        let changes = self.changes.clone();
        let mut watcher = Watcher::new(self.client.clone(), target, changes, reporter);
        watcher.run().await;
    }

    /// An error means that the watches have ended.
    async fn send(&self, name: &KindName, event: Event) {
        let collection = Collection::Kind(name.clone());
        let _ = self.changes.send(Change { collection, event }).await;
    }
}
