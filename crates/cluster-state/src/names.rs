//! The names and labels of objects of any kind, from watches of their metadata. The
//! watch of a kind starts with the first request for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::client::Client;
use super::error::CallError;
use super::health::{Need, WatchRegistry};
use super::owners;
use super::store::{Form, Refused, Store, Target};
use super::table::{Key, Table};
use super::watch::{WAIT_MOST, Watcher};
use super::wire::{self, Object};
use apimachinery::kinds::Kind;
use apimachinery::labels::Labels;
use apimachinery::selector::Selector;

/// The most kinds that are watched; rules name a handful.
const MOST_KINDS: usize = 64;

/// How long the first request waits for the list.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause before a kind that is not served is asked for again.
const NOT_SERVED: Duration = Duration::from_secs(30);

/// Objects of the requested kinds.
#[derive(Clone, Debug)]
pub struct WatchedNames(Arc<KindWatches>);

#[derive(Debug)]
struct KindWatches {
    client: Client,
    registry: WatchRegistry,
    kinds: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    collections: BTreeMap<Arc<str>, Arc<Collection>>,
    /// Dropping the set ends the watches.
    tasks: JoinSet<()>,
}

/// The objects of one kind.
#[derive(Debug, Default)]
struct Collection {
    table: Mutex<Table<Labels>>,
    settled: Notify,
}

impl Collection {
    fn lock(&self) -> MutexGuard<'_, Table<Labels>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the first attempt to list it has ended.
    async fn settled(&self) {
        loop {
            let notified = self.settled.notified();
            if self.lock().settled {
                return;
            }
            notified.await;
        }
    }
}

impl WatchedNames {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(client: Client, registry: WatchRegistry) -> Self {
        Self(Arc::new(KindWatches {
            client,
            registry,
            kinds: Mutex::default(),
        }))
    }

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
        let collection = self.start(kind)?;
        if tokio::time::timeout(PATIENCE, collection.settled())
            .await
            .is_err()
        {
            // Later requests do not wait for a list that takes this long.
            CollectionWriter(Arc::clone(&collection)).give_up();
        }
        let table = collection.lock();
        let is_it = |(key, labels): &(&Key, &Labels)| {
            namespace.is_none_or(|namespace| *key.0 == *namespace) && selector.matches(labels)
        };
        table.complete.then(|| {
            let matching = table.iter().filter(is_it);
            matching.map(|(key, _)| Arc::clone(&key.1)).collect()
        })
    }

    /// `None`: it cannot be watched.
    fn start(&self, kind: &Kind) -> Option<Arc<Collection>> {
        let resource = kind.resource();
        let mut watched = self.lock();
        if let Some(collection) = watched.collections.get(&resource) {
            return Some(Arc::clone(collection));
        }
        if !kind.watchable || watched.collections.len() >= MOST_KINDS {
            return None;
        }
        let collection = Arc::new(Collection::default());
        watched
            .collections
            .insert(Arc::clone(&resource), Arc::clone(&collection));
        let path = if kind.group.is_empty() {
            format!("/api/{}/{}", kind.version, kind.plural)
        } else {
            format!("/apis/{}/{}/{}", kind.group, kind.version, kind.plural)
        };
        let target = Target {
            path,
            fields: "",
            form: Form::Metadata,
            remedy: owners::remedy(&kind.group, &kind.plural),
            wait_most: WAIT_MOST,
        };
        let store = CollectionWriter(Arc::clone(&collection));
        let reporter = self
            .0
            .registry
            .enter(&format!("objects of {resource}"), Need::Optional);
        let mut watcher = Watcher::new(self.0.client.clone(), target, store, reporter);
        watched.tasks.spawn(async move {
            loop {
                watcher.run().await;
                tokio::time::sleep(NOT_SERVED).await;
            }
        });
        Some(collection)
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the table of one kind.
struct CollectionWriter(Arc<Collection>);

impl CollectionWriter {
    fn settle(&self) {
        self.0.settled.notify_waiters();
    }

    /// Requests no longer wait for the first list.
    fn give_up(&self) {
        self.0.lock().settled = true;
        self.settle();
    }
}

impl Store for CollectionWriter {
    fn begin(&mut self) {
        self.0.lock().begin();
    }

    fn put(&mut self, object: &RawValue) -> Result<(), Refused> {
        let object: Object<IgnoredAny, IgnoredAny> = wire::decode(object)?;
        let (namespace, name) = object.metadata.name()?;
        let labels = Labels::from_pairs(object.metadata.labels.unwrap_or_default());
        self.0
            .lock()
            .put((namespace.into(), name.into()), labels)
            .map(|_| ())
    }

    fn remove(&mut self, object: &RawValue) {
        if let Some((namespace, name)) = wire::name_of(object) {
            self.0.lock().remove(&(namespace.into(), name.into()));
        }
    }

    fn complete(&mut self) {
        self.0.lock().finish();
        self.settle();
    }

    fn failed(&mut self, _: &CallError) {
        self.give_up();
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}
