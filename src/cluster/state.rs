//! What is known of the cluster, reduced and interned; the watches write it,
//! snapshots are made of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::error::Garbage;
use super::inventory::WatchSettings;
use super::keep::{Keep, Refused};
use super::kinds::Kinds;
use super::pods::{self, ReducedPod};
use super::pool::{KindKey, KindName, Pool};
use super::reduce::{self, Controller, Name, ReducedObject, ReducedService};
use crate::core::inventory::PodPhase;
use crate::core::labels::Labels;
use crate::core::time::Timestamp;

/// Most objects of one collection: five times the pods of the largest cluster
/// that Kubernetes is tested for (`kubernetes.io/docs/setup/best-practices/
/// cluster-large`, 150,000 pods), so that memory has a bound.
const MOST_OBJECTS: usize = 750_000;

/// Namespace (empty: cluster-scoped) and name.
pub(super) type Key = (Arc<str>, Arc<str>);

/// A reference to a controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnerRef {
    pub(super) kind: Arc<KindName>,
    pub(super) name: Arc<str>,
    pub(super) uid: u64,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptPod {
    pub(super) uid: u64,
    pub(super) labels: Labels,
    pub(super) controller: Option<OwnerRef>,
    pub(super) node: Option<Arc<str>>,
    pub(super) started: Option<Timestamp>,
    pub(super) phase: PodPhase,
    pub(super) terminating: bool,
    pub(super) running_since: Option<Timestamp>,
    pub(super) gpus: u32,
    pub(super) claims: bool,
    /// The address (empty: none yet) of what looks like an exporter.
    pub(super) exporter: Option<Arc<str>>,
}

impl KeptPod {
    /// Whether it asks for GPUs, or has claims, which may be for some.
    pub(super) const fn requests_gpu(&self) -> bool {
        self.gpus > 0 || self.claims
    }

    /// Not finished, not terminating.
    pub(super) fn is_live(&self) -> bool {
        !self.terminating && self.phase != PodPhase::Finished
    }
}

/// A namespace, a node, or an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptObject {
    pub(super) uid: u64,
    pub(super) labels: Labels,
    pub(super) controller: Option<OwnerRef>,
    pub(super) created: Option<Timestamp>,
}

/// A service with a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptService {
    pub(super) labels: Labels,
    pub(super) selector: Labels,
    pub(super) created: Option<Timestamp>,
}

/// The objects of one collection. A list replaces them when it is complete;
/// until then the old ones stand.
#[derive(Debug)]
pub(super) struct Table<V> {
    objects: BTreeMap<Key, (u32, V)>,
    /// The number of the list that is running or was the last.
    list: u32,
    /// Whether a list was ever complete.
    pub(super) complete: bool,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            list: 0,
            complete: false,
        }
    }
}

impl<V: PartialEq> Table<V> {
    fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Whether anything changed.
    fn put(&mut self, key: Key, value: V) -> Result<bool, Refused> {
        if let Some((list, known)) = self.objects.get_mut(&key) {
            *list = self.list;
            let changed = *known != value;
            *known = value;
            return Ok(changed);
        }
        if self.objects.len() >= MOST_OBJECTS {
            return Err(Refused::Full(MOST_OBJECTS));
        }
        self.objects.insert(key, (self.list, value));
        Ok(true)
    }

    fn remove(&mut self, key: &Key) -> bool {
        self.objects.remove(key).is_some()
    }

    fn finish(&mut self) -> bool {
        let (before, first) = (self.objects.len(), !self.complete);
        self.objects.retain(|_, (list, _)| *list == self.list);
        self.complete = true;
        first || self.objects.len() != before
    }

    pub(super) fn get(&self, key: &Key) -> Option<&V> {
        self.objects.get(key).map(|(_, value)| value)
    }

    /// By namespace and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.objects.iter().map(|(key, (_, value))| (key, value))
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pool: Pool,
    pub(super) pods: Table<KeptPod>,
    pub(super) namespaces: Table<KeptObject>,
    pub(super) nodes: Table<KeptObject>,
    pub(super) services: Table<KeptService>,
    /// The owners, by kind.
    pub(super) kinds: Kinds,
    /// Whether the log has heard that services were left out.
    pub(super) told_services: bool,
}

impl State {
    fn key(&mut self, (namespace, name): &Name) -> Key {
        (self.pool.text(namespace), name.as_str().into())
    }

    fn owner(&mut self, controller: Option<&Controller>) -> Option<OwnerRef> {
        let controller = controller?;
        Some(OwnerRef {
            kind: self
                .pool
                .kind(&controller.group, &controller.version, &controller.kind),
            name: self.pool.text(&controller.name),
            uid: controller.uid,
        })
    }

    fn put_pod(&mut self, pod: &ReducedPod) -> Result<bool, Refused> {
        let key = self.key(&pod.name);
        let kept = KeptPod {
            uid: pod.uid,
            labels: self.pool.labels(&pod.labels),
            controller: self.owner(pod.controller.as_ref()),
            node: pod.node.as_deref().map(|node| self.pool.text(node)),
            started: pod.started,
            phase: pod.phase,
            terminating: pod.terminating,
            running_since: pod.running_since,
            gpus: pod.gpus,
            claims: pod.claims,
            exporter: pod.exporter.as_deref().map(Into::into),
        };
        self.pods.put(key, kept)
    }

    fn kept(&mut self, object: &ReducedObject) -> KeptObject {
        KeptObject {
            uid: object.uid,
            labels: self.pool.labels(&object.labels),
            controller: self.owner(object.controller.as_ref()),
            created: object.created,
        }
    }

    fn put_service(&mut self, service: &ReducedService) -> Result<bool, Refused> {
        let key = self.key(&service.name);
        // An empty selector selects nothing (`k8s.io/api/core/v1`, ServiceSpec).
        if service.selector.is_empty() {
            return Ok(self.services.remove(&key));
        }
        let kept = KeptService {
            labels: self.pool.labels(&service.labels),
            selector: self.pool.labels(&service.selector),
            created: service.created,
        };
        self.services.put(key, kept)
    }
}

/// The state, shared by the watches and those who read it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) settings: WatchSettings,
    /// Something changed: a new snapshot is due.
    pub(super) changed: Notify,
    /// There are kinds of owners to look up.
    pub(super) wanted: Notify,
}

impl Shared {
    pub(super) fn new(settings: WatchSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which collection of the state a watch writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Collection {
    /// Pods.
    Pods,
    /// Namespaces.
    Namespaces,
    /// Nodes.
    Nodes,
    /// Services.
    Services,
    /// Owners of a kind.
    Owners(KindKey),
}

/// Writes one collection.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) collection: Collection,
}

/// Does the same to whichever table it is.
macro_rules! on_table {
    ($state:expr, $collection:expr, $table:ident => $body:expr, $none:expr) => {
        match $collection {
            Collection::Pods => {
                let $table = &mut $state.pods;
                $body
            }
            Collection::Namespaces => {
                let $table = &mut $state.namespaces;
                $body
            }
            Collection::Nodes => {
                let $table = &mut $state.nodes;
                $body
            }
            Collection::Services => {
                let $table = &mut $state.services;
                $body
            }
            Collection::Owners(kind) => match $state.kinds.get_mut(kind) {
                Some(owners) => {
                    let $table = &mut owners.objects;
                    $body
                }
                None => $none,
            },
        }
    };
}

impl Keeper {
    fn write(&self, object: &RawValue) -> Result<bool, Refused> {
        // Decoded before the lock is taken.
        match &self.collection {
            Collection::Pods => {
                let pod = pods::pod(object, &self.shared.settings)?;
                self.shared.lock().put_pod(&pod)
            }
            Collection::Services => {
                let service = reduce::service(object)?;
                self.shared.lock().put_service(&service)
            }
            collection => {
                let object = reduce::object(object)?;
                let mut state = self.shared.lock();
                let state = &mut *state;
                let (key, kept) = (state.key(&object.name), state.kept(&object));
                match collection {
                    Collection::Namespaces => state.namespaces.put(key, kept),
                    Collection::Nodes => state.nodes.put(key, kept),
                    Collection::Owners(kind) => match state.kinds.get_mut(kind) {
                        Some(owners) => owners.objects.put(key, kept),
                        None => Ok(false),
                    },
                    Collection::Pods | Collection::Services => Ok(false),
                }
            }
        }
    }

    fn take(&self, name: &Name) -> bool {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let key = state.key(name);
        on_table!(state, &self.collection, table => table.remove(&key), false)
    }

    fn settle(&self) {
        if let Collection::Owners(kind) = &self.collection {
            let mut state = self.shared.lock();
            if let Some(owners) = state.kinds.get_mut(kind) {
                owners.settled = true;
            }
        }
    }
}

impl Keep for Keeper {
    fn begin(&mut self) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        on_table!(state, &self.collection, table => table.begin(), ());
    }

    fn put(&mut self, object: &RawValue) -> Result<(), Refused> {
        let outcome = self.write(object);
        let changed = match &outcome {
            Ok(changed) => *changed,
            // An object that cannot be read any more is not known any more.
            Err(Refused::Garbage(Garbage(_))) => {
                reduce::name_of(object).is_some_and(|name| self.take(&name))
            }
            Err(Refused::Full(_)) => false,
        };
        if changed {
            self.shared.changed.notify_one();
        }
        outcome.map(|_| ())
    }

    fn remove(&mut self, object: &RawValue) {
        if reduce::name_of(object).is_some_and(|name| self.take(&name)) {
            self.shared.changed.notify_one();
        }
    }

    fn complete(&mut self) {
        self.settle();
        let mut state = self.shared.lock();
        let state = &mut *state;
        if on_table!(state, &self.collection, table => table.finish(), false) {
            self.shared.changed.notify_one();
        }
    }

    fn failed(&mut self) {
        self.settle();
        self.shared.changed.notify_one();
    }

    fn len(&self) -> usize {
        let mut state = self.shared.lock();
        let state = &mut *state;
        on_table!(state, &self.collection, table => table.len(), 0)
    }
}
