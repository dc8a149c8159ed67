//! The watched objects. One task owns them ([`super::keeper`]); the watches send it changes.

use std::time::Instant;

use super::clock;
use super::departed::{Departed, Departing};
use super::kinds::FollowedKinds;
use super::objects::{Kept, KeptObject, WatchSettings};
use super::pods::KeptPod;
use super::pool::{KindName, Pool};
use super::table::Table;
use super::wire::{Name, Object};
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::ObjectKind;

/// What a watch reports of its collection.
pub(super) enum Event<V: Kept> {
    /// A list begins: objects that are not in it are removed when it is complete.
    ListBegins,
    Put(Object<V::Spec, V::Status>),
    Deleted(Name),
    Listed,
    /// A call failed; the objects stay.
    Failed {
        is_forbidden: bool,
    },
}

/// Collections of which only metadata is kept.
pub(super) enum Collection {
    Namespaces,
    Nodes,
    /// Owners, and objects that rules request.
    Kind(KindName),
}

pub(super) enum Change {
    Pods(Event<KeptPod>),
    Objects(Collection, Event<KeptObject>),
    /// A rule requests the names of a kind's objects.
    Requested(KindName),
    /// Discovery has the kind, which is watched from now on.
    Served(KindName, ObjectKind),
    NotServed(KindName),
}

#[derive(Debug, Default)]
pub(super) struct WatchedObjects {
    pub(super) settings: WatchSettings,
    pub(super) pool: Pool,
    pub(super) pods: Table<KeptPod>,
    pub(super) namespaces: Table<KeptObject>,
    pub(super) nodes: Table<KeptObject>,
    pub(super) kinds: FollowedKinds,
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

    /// Returns whether the inventory or the requested objects change.
    pub(super) fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Pods(event) => {
                let changed =
                    self.pods
                        .apply(event, &mut self.pool, &self.settings, &mut self.departed);
                if self.pods.complete {
                    self.listed.get_or_insert_with(clock::now);
                }
                changed
            }
            Change::Objects(collection, event) => self.apply_to(&collection, event),
            Change::Requested(name) => self.kinds.request(&name),
            Change::Served(name, resource) => self.kinds.served(&name, resource),
            Change::NotServed(name) => self.kinds.not_served(&name),
        }
    }

    fn apply_to(&mut self, collection: &Collection, event: Event<KeptObject>) -> bool {
        let table = match collection {
            Collection::Namespaces => &mut self.namespaces,
            Collection::Nodes => &mut self.nodes,
            // An event of a kind that is not followed any more comes too late.
            Collection::Kind(name) => match self.kinds.objects_mut(name) {
                Some(objects) => objects,
                None => return false,
            },
        };
        table.apply(event, &mut self.pool, &self.settings, &mut self.departed)
    }

    /// The number of objects of each watch, by the name of its entry on the registry.
    pub(super) fn sizes(&self) -> Vec<(String, usize)> {
        let mut sizes = vec![
            ("pods".to_owned(), self.pods.len()),
            ("namespaces".to_owned(), self.namespaces.len()),
            ("nodes".to_owned(), self.nodes.len()),
        ];
        sizes.extend(self.kinds.sizes());
        sizes
    }
}

impl<V: Departing> Table<V> {
    fn apply(
        &mut self,
        event: Event<V>,
        pool: &mut Pool,
        settings: &WatchSettings,
        departed: &mut Departed,
    ) -> bool {
        let now = Instant::now();
        match event {
            Event::ListBegins => {
                self.begin();
                false
            }
            Event::Put(object) => {
                let key = pool.key(&object.metadata.name, object.metadata.namespace.as_deref());
                let kept = V::keep(object, pool, settings);
                let replaced = self.get(&key).filter(|it| it.uid() != kept.uid());
                if let Some(replaced) = replaced {
                    replaced.depart(&key, departed, now);
                }
                self.put(key, kept)
            }
            Event::Deleted(name) => {
                let key = pool.key(&name.name, Some(&name.namespace));
                if let Some(known) = self.get(&key) {
                    known.depart(&key, departed, now);
                }
                self.remove(&key)
            }
            Event::Listed => {
                for (key, value) in self.unlisted() {
                    value.depart(key, departed, now);
                }
                self.finish()
            }
            Event::Failed { is_forbidden } => self.failed(is_forbidden),
        }
    }
}
