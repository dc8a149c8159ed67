//! What is known of the cluster, reduced and interned; the watches write it,
//! snapshots are made of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::departed::Departed;
use super::error::Garbage;
use super::inventory::WatchSettings;
use super::keep::{Keep, Refused};
use super::kinds::Kinds;
use super::pods::{self, ReducedPod};
use super::pool::{KindKey, KindName, Pool};
use super::reduce::{self, Controller, Name, ReducedObject, ReducedService};
use super::table::{Key, Table};
use crate::core::inventory::PodPhase;
use crate::core::labels::Labels;
use crate::core::time::Timestamp;

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
    pub(super) uncounted: bool,
    /// The address (empty: none yet) of what looks like an exporter.
    pub(super) exporter: Option<Arc<str>>,
}

impl KeptPod {
    /// Whether it asks for GPUs, in whatever way.
    pub(super) const fn requests_gpu(&self) -> bool {
        self.gpus > 0 || self.uncounted
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

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pool: Pool,
    pub(super) pods: Table<KeptPod>,
    pub(super) namespaces: Table<KeptObject>,
    pub(super) nodes: Table<KeptObject>,
    pub(super) services: Table<KeptService>,
    /// Pods and owners that went.
    pub(super) departed: Departed,
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
            uncounted: pod.uncounted,
            exporter: pod.exporter.as_deref().map(Into::into),
        };
        if let Some(before) = self.pods.get(&key)
            && before.uid != kept.uid
        {
            self.departed.pod(&key, before, Instant::now());
        }
        self.pods.put(key, kept)
    }

    fn put_owner(&mut self, kind: &KindKey, key: Key, kept: KeptObject) -> Result<bool, Refused> {
        let Some(owners) = self.kinds.get_mut(kind) else {
            return Ok(false);
        };
        if let Some(before) = owners.objects.get(&key)
            && before.uid != kept.uid
        {
            self.departed.owner(before, Instant::now());
        }
        owners.objects.put(key, kept)
    }

    /// Remembers a pod or an owner that is about to be removed.
    fn depart(&mut self, collection: &Collection, key: &Key) {
        let now = Instant::now();
        match collection {
            Collection::Pods => {
                if let Some(pod) = self.pods.get(key) {
                    self.departed.pod(key, pod, now);
                }
            }
            Collection::Owners(kind) => {
                let owners = self.kinds.get(kind);
                if let Some(owner) = owners.and_then(|owners| owners.objects.get(key)) {
                    self.departed.owner(owner, now);
                }
            }
            Collection::Namespaces | Collection::Nodes | Collection::Services => {}
        }
    }

    /// The same for all that a list did not hold any more.
    fn depart_unlisted(&mut self, collection: &Collection) {
        let now = Instant::now();
        match collection {
            Collection::Pods => {
                for (key, pod) in self.pods.unlisted() {
                    self.departed.pod(key, pod, now);
                }
            }
            Collection::Owners(kind) => {
                let owners = self.kinds.get(kind).into_iter();
                for (_, owner) in owners.flat_map(|owners| owners.objects.unlisted()) {
                    self.departed.owner(owner, now);
                }
            }
            Collection::Namespaces | Collection::Nodes | Collection::Services => {}
        }
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
                    Collection::Owners(kind) => state.put_owner(kind, key, kept),
                    Collection::Pods | Collection::Services => Ok(false),
                }
            }
        }
    }

    fn take(&self, name: &Name) -> bool {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let key = state.key(name);
        state.depart(&self.collection, &key);
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
        state.depart_unlisted(&self.collection);
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
