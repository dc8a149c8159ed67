//! The watched objects. One task owns them ([`super::keeper`]); the watches send it changes.

use std::collections::BTreeMap;
use std::time::Instant;

use super::clock;
use super::departed::Departed;
use super::objects::{KeptObject, Metadata, Object, WatchSettings};
use super::pool::{KindName, Pool};
use super::table::Table;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::ObjectKind;

/// What a watch lists.
#[derive(Clone, Debug)]
pub(super) enum Collection {
    Pods,
    Namespaces,
    Nodes,
    /// Owners.
    Kind(KindName),
}

/// What a watch reports of its collection.
#[derive(Debug)]
pub(super) enum Event {
    /// A list begins: objects that are not in it are removed when it is complete.
    ListBegins,
    Put(Box<Object>),
    Deleted(Metadata),
    Listed,
    /// A call failed; the objects stay.
    Failed {
        is_forbidden: bool,
    },
    /// Discovery has the kind, which is watched from now on.
    Served(ObjectKind),
    /// The kind has no objects.
    NotServed,
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) collection: Collection,
    pub(super) event: Event,
}

/// A kind of objects that own GPU pods, directly or through other owners.
#[derive(Debug, Default)]
pub(super) struct FollowedKind {
    /// The resource as in discovery; `None`: not looked up yet, or not served.
    pub(super) resource: Option<ObjectKind>,
    pub(super) objects: Table,
}

#[derive(Debug, Default)]
pub(super) struct WatchedObjects {
    pub(super) settings: WatchSettings,
    pub(super) pool: Pool,
    pub(super) pods: Table,
    pub(super) namespaces: Table,
    pub(super) nodes: Table,
    /// A kind is followed while a pod has an owner of this kind, also a deleted pod that is
    /// remembered.
    pub(super) kinds: BTreeMap<KindName, FollowedKind>,
    pub(super) departed: Departed,
    /// When the first list of all pods was complete.
    pub(super) listed: Option<Timestamp>,
}

impl WatchedObjects {
    pub(super) fn new(settings: WatchSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Whether there can be an inventory. It does not wait for nodes if they are forbidden.
    pub(super) const fn are_listed(&self) -> bool {
        let nodes = self.nodes.complete || self.nodes.forbidden;
        self.pods.complete && self.namespaces.complete && nodes
    }

    /// Returns whether the inventory changes.
    pub(super) fn apply(&mut self, change: Change) -> bool {
        let table = match &change.collection {
            Collection::Pods => &mut self.pods,
            Collection::Namespaces => &mut self.namespaces,
            Collection::Nodes => &mut self.nodes,
            Collection::Kind(name) => {
                let Some(kind) = self.kinds.get_mut(name) else {
                    // An event of a kind that is not followed any more comes too late.
                    return false;
                };
                match &change.event {
                    Event::Served(resource) => kind.resource = Some(resource.clone()),
                    Event::NotServed => *kind = FollowedKind::default(),
                    _ => {}
                }
                &mut kind.objects
            }
        };
        let now = Instant::now();
        match change.event {
            Event::ListBegins => {
                table.begin();
                false
            }
            Event::Put(object) => {
                let metadata = &object.metadata;
                let key = self.pool.key(&metadata.name, metadata.namespace.as_deref());
                let mut object = KeptObject::new(&key, *object, &mut self.pool, &self.settings);
                let uid = object.uid;
                let former = table.get(&key).filter(|former| former.uid == uid);
                let former = former.and_then(|former| former.pod.as_deref());
                if let (Some(pod), Some(former)) = (object.pod.as_deref_mut(), former) {
                    pod.keep_startup(former);
                }
                let former = table.put(key.clone(), object);
                let changed = former.as_ref() != table.get(&key);
                if let Some(former) = former.filter(|former| former.uid != uid) {
                    self.departed.add(key, former, now);
                }
                changed
            }
            Event::Deleted(it) => {
                let key = self.pool.key(&it.name, it.namespace.as_deref());
                let removed = table.remove(&key);
                removed.is_some_and(|removed| {
                    self.departed.add(key, removed, now);
                    true
                })
            }
            Event::Listed => {
                let is_first = !table.complete;
                let removed = table.finish();
                let changed = is_first || !removed.is_empty();
                for (key, object) in removed {
                    self.departed.add(key, object, now);
                }
                if matches!(change.collection, Collection::Pods) {
                    self.listed.get_or_insert_with(clock::now);
                }
                changed
            }
            Event::Failed { is_forbidden } => table.failed(is_forbidden),
            Event::Served(_) | Event::NotServed => true,
        }
    }
}
