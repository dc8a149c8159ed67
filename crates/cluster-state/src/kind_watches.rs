//! The watches of the followed kinds, those of owners. Each kind is looked up in discovery,
//! and the metadata of its objects is watched.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::client::Client;
use super::health::{Need, WatchRegistry};
use super::pool::KindName;
use super::served;
use super::state::{Change, Collection, Event};
use super::watch::{Target, Watcher};
use apimachinery::kinds::Kind;
use gpu_metrics::inventory::ObjectKind;

/// The pause after a read of discovery. Users with the right to write pods can name kinds that
/// do not exist, and each new one causes a read.
const PAUSE: Duration = Duration::from_secs(1);

/// The time after which kinds that are not served are looked up again.
const AGAIN: Duration = Duration::from_secs(30);

/// The pause before a kind that is no longer served is looked up again: discovery still lists it
/// for a moment.
const NOT_SERVED: Duration = Duration::from_secs(5);

/// Watches the followed kinds. It ends when the keeper of the objects ends, or a watch
/// panics.
pub(super) async fn run(
    client: Client,
    changes: mpsc::Sender<Change>,
    mut followed: watch::Receiver<BTreeSet<KindName>>,
    registry: WatchRegistry,
) {
    let mut tasks = JoinSet::new();
    let mut watches: BTreeMap<KindName, AbortHandle> = BTreeMap::new();
    loop {
        let mut names = followed.borrow_and_update().clone();
        watches.retain(|name, task| {
            let stays = names.contains(name) && !task.is_finished();
            if !stays {
                task.abort();
            }
            stays
        });
        names.retain(|name| !watches.contains_key(name));
        let has_unwatched = !names.is_empty();
        if has_unwatched {
            let kinds = served::kinds(&client).await;
            for name in names {
                // Owners of pods are in namespaces.
                let is_it = |it: &&Kind| {
                    it.watchable && it.namespaced && it.group == name.group && it.kind == name.kind
                };
                match kinds.as_ref().map(|kinds| kinds.iter().find(is_it)) {
                    Ok(Some(kind)) => {
                        let watch = watch_served(&client, &changes, &registry, &name, kind);
                        watches.insert(name.clone(), tasks.spawn(watch));
                    }
                    Ok(None) => send(&changes, &name, Event::NotServed).await,
                    Err(_) => {}
                }
            }
            sleep(PAUSE).await;
        }
        tokio::select! {
            changed = followed.changed() => if changed.is_err() {
                return;
            },
            Some(ended) = tasks.join_next() => if ended.is_err_and(|error| error.is_panic()) {
                return;
            },
            () = sleep(AGAIN), if has_unwatched => {}
        }
    }
}

/// Watches a kind until it is no longer served.
fn watch_served(
    client: &Client,
    changes: &mpsc::Sender<Change>,
    registry: &WatchRegistry,
    name: &KindName,
    kind: &Kind,
) -> impl Future<Output = ()> + use<> {
    let version = kind.api_version();
    let resource = ObjectKind::new(&kind.resource(), &kind.kind, &version, kind.namespaced);
    let reporter = registry.enter(&kind.resource(), Need::Optional);
    let collection = Collection::Kind(name.clone());
    let target = Target::new(collection, &kind.group, &version, &kind.plural);
    let watcher = Watcher::new(client.clone(), target, changes.clone(), reporter);
    let (changes, name) = (changes.clone(), name.clone());
    async move {
        send(&changes, &name, Event::Served(resource)).await;
        watcher.run().await;
        sleep(NOT_SERVED).await;
    }
}

/// An error means that the watches have ended.
async fn send(changes: &mpsc::Sender<Change>, name: &KindName, event: Event) {
    let collection = Collection::Kind(name.clone());
    let _ = changes.send(Change { collection, event }).await;
}
