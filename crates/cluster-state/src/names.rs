//! The names and labels of objects of any kind, for rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::pool::KindName;
use super::state::{Change, Collection, Event};
use apimachinery::kinds::Kind;
use apimachinery::labels::Labels;
use apimachinery::selector::Selector;

/// How long the first request for the names of a kind waits for its list.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct NamedObject {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) labels: Labels,
}

#[derive(Clone, Debug)]
pub(super) struct RequestedKind {
    /// Whether the first attempt to list it has ended.
    pub(super) is_settled: bool,
    /// Its objects by namespace and name; `None`: they were never listed.
    pub(super) objects: Option<Arc<[NamedObject]>>,
}

pub(super) type RequestedKinds = BTreeMap<KindName, RequestedKind>;

/// The names and labels of objects of any kind. The watch of a kind starts with the first
/// request for it.
#[derive(Clone, Debug)]
pub struct WatchedNames {
    pub(super) published: watch::Receiver<RequestedKinds>,
    pub(super) changes: mpsc::Sender<Change>,
}

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
        let objects = self
            .objects(&KindName::new(&kind.group, &kind.kind))
            .await?;
        let within = namespace.map_or(&*objects, |namespace| {
            let start = objects.partition_point(|it| *it.namespace < *namespace);
            let rest = &objects[start..];
            &rest[..rest.partition_point(|it| *it.namespace == *namespace)]
        });
        let matching = within.iter().filter(|it| selector.matches(&it.labels));
        Some(matching.map(|it| Arc::clone(&it.name)).collect())
    }

    async fn objects(&self, name: &KindName) -> Option<Arc<[NamedObject]>> {
        let known = self.published.borrow().get(name).cloned();
        if let Some(known) = known.filter(|kind| kind.is_settled) {
            return known.objects;
        }
        self.send(Change::Requested(name.clone())).await;
        let mut published = self.published.clone();
        let is_settled =
            |kinds: &RequestedKinds| kinds.get(name).is_some_and(|kind| kind.is_settled);
        let listed = tokio::time::timeout(PATIENCE, published.wait_for(is_settled))
            .await
            .map(|kinds| kinds.ok()?.get(name)?.objects.clone());
        if let Ok(objects) = listed {
            return objects;
        }
        // Later requests do not wait for a list that takes this long.
        let failed = Event::Failed {
            is_forbidden: false,
        };
        let collection = Collection::Kind(name.clone());
        self.send(Change::Objects(collection, failed)).await;
        None
    }

    /// An error means that the watches have ended: nothing is published any more.
    async fn send(&self, change: Change) {
        let _ = self.changes.send(change).await;
    }
}
