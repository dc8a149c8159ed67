//! An inventory out of what is known: owners followed upward, services through
//! their selectors.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::pool::{KindKey, KindName};
use super::state::{KeptObject, KeptService, Key, OwnerKind, OwnerRef, State, Table};
use crate::core::inventory::{Authority, ClusterObject, Inventory, ObjectKind, Pod, Workload};
use crate::core::labels::Labels;

/// Longest chain of controllers; pod, ReplicaSet, Deployment and what made it
/// are four. References that form a ring end here too.
const LONGEST_CHAIN: usize = 8;

/// A text by where it lies: texts come from one pool, equal ones lie in one
/// place.
type Place = *const u8;

fn place(text: &Arc<str>) -> Place {
    text.as_ptr()
}

/// Services by namespace and the first pair of their selector.
type ByPair<'a> = HashMap<(Place, Place, Place), Vec<(&'a Key, &'a KeptService)>>;

/// What a walk up the controllers found, by where it began: namespace, first
/// controller, and whether the pod asks for GPUs.
type Chains = HashMap<(Arc<str>, OwnerRef, bool), Vec<u32>>;

/// Resource, namespace and name.
type WorkloadKey = (Arc<str>, Arc<str>, Arc<str>);

/// A snapshot under construction.
struct Walk<'a> {
    state: &'a State,
    services: ByPair<'a>,
    service_kind: ObjectKind,
    workloads: Vec<Workload>,
    /// Places of workloads.
    known: HashMap<WorkloadKey, u32>,
    chains: Chains,
    /// Kinds that GPU pods have, by group and kind.
    used: BTreeMap<KindKey, Arc<KindName>>,
}

/// Makes an inventory, notes the kinds that are wanted and those that are not
/// used any more, and tidies the pool.
pub(super) fn inventory(state: &mut State, now: Instant) -> Inventory {
    let mut walk = Walk::new(state);
    let mut pods = Vec::with_capacity(state.pods.len());
    for ((namespace, name), pod) in state.pods.iter() {
        let mut owners = Vec::new();
        // A pod that is in no answer needs no owners.
        if pod.is_live() {
            if let Some(controller) = &pod.controller {
                owners.extend(walk.owners(namespace, controller, pod.requests_gpu));
            }
            walk.add_services(namespace, &pod.labels, &mut owners);
        }
        pods.push(Pod {
            namespace: Arc::clone(namespace),
            name: Arc::clone(name),
            labels: pod.labels.clone(),
            node: pod.node.clone(),
            phase: pod.phase,
            terminating: pod.terminating,
            started: pod.started,
            requests_gpu: pod.requests_gpu,
            owners,
        });
    }
    let Walk {
        workloads, used, ..
    } = walk;
    let inventory = Inventory {
        authority: Authority::Cluster,
        pods,
        namespaces: cluster_objects(&state.namespaces),
        nodes: cluster_objects(&state.nodes),
        workloads,
    };
    for (key, kind) in &mut state.kinds {
        if used.contains_key(key) {
            kind.unused = None;
        } else {
            kind.unused.get_or_insert(now);
        }
    }
    let missing = used
        .into_iter()
        .filter(|(key, _)| !state.kinds.contains_key(key));
    state.wanted = missing.map(|(_, kind)| kind).collect();
    state.pool.purge();
    inventory
}

fn cluster_objects(table: &Table<KeptObject>) -> Vec<ClusterObject> {
    let object = |((_, name), object): (&Key, &KeptObject)| ClusterObject {
        name: Arc::clone(name),
        labels: object.labels.clone(),
    };
    table.iter().map(object).collect()
}

impl<'a> Walk<'a> {
    fn new(state: &'a State) -> Self {
        let mut services = ByPair::new();
        for (key, service) in state.services.iter() {
            if let Some((name, value)) = service.selector.iter().next() {
                let at = (place(&key.0), place(name), place(value));
                services.entry(at).or_default().push((key, service));
            }
        }
        Self {
            state,
            services,
            service_kind: ObjectKind::service(),
            workloads: Vec::new(),
            known: HashMap::new(),
            chains: Chains::new(),
            used: BTreeMap::new(),
        }
    }

    fn workload(&mut self, kind: &ObjectKind, key: &Key, labels: &Labels) -> u32 {
        let at = (
            Arc::clone(&kind.resource),
            Arc::clone(&key.0),
            Arc::clone(&key.1),
        );
        *self.known.entry(at).or_insert_with(|| {
            self.workloads.push(Workload {
                kind: kind.clone(),
                namespace: Arc::clone(&key.0),
                name: Arc::clone(&key.1),
                labels: labels.clone(),
            });
            u32::try_from(self.workloads.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn add_services(&mut self, namespace: &Arc<str>, labels: &Labels, owners: &mut Vec<u32>) {
        if self.services.is_empty() {
            return;
        }
        for (name, value) in labels.iter() {
            let at = (place(namespace), place(name), place(value));
            let Some(candidates) = self.services.get(&at) else {
                continue;
            };
            let selects = |service: &KeptService| {
                let mut pairs = service.selector.iter();
                pairs.all(|(name, value)| labels.get(name) == Some(value))
            };
            let selected: Vec<_> = candidates
                .iter()
                .filter(|(_, service)| selects(service))
                .copied()
                .collect();
            for (key, service) in selected {
                let kind = self.service_kind.clone();
                owners.push(self.workload(&kind, key, &service.labels));
            }
        }
    }

    /// The controller, its controller, and so on.
    fn owners(&mut self, namespace: &Arc<str>, first: &OwnerRef, gpu: bool) -> Vec<u32> {
        let from = (Arc::clone(namespace), first.clone(), gpu);
        if let Some(chain) = self.chains.get(&from) {
            return chain.clone();
        }
        let mut chain = Vec::new();
        let mut next = Some(first.clone());
        for _ in 0..LONGEST_CHAIN {
            let Some(reference) = next else { break };
            next = self.step(namespace, &reference, gpu, &mut chain);
        }
        self.chains.insert(from, chain.clone());
        chain
    }

    /// One step upward; the next one's reference.
    fn step(
        &mut self,
        namespace: &Arc<str>,
        reference: &OwnerRef,
        gpu: bool,
        chain: &mut Vec<u32>,
    ) -> Option<OwnerRef> {
        let state = self.state;
        let key = (Arc::clone(namespace), Arc::clone(&reference.name));
        // A pod that is the controller of pods (Spark's driver): it has values
        // of its own, and its controller is theirs.
        if reference.kind.group.is_empty() && &*reference.kind.kind == "Pod" {
            return state.pods.get(&key)?.controller.clone();
        }
        let kind = reference.kind.key();
        if gpu {
            let used = self.used.entry(kind.clone());
            used.or_insert_with(|| Arc::clone(&reference.kind));
        }
        let OwnerKind {
            resource, objects, ..
        } = state.kinds.get(&kind)?;
        let resource = resource.as_ref()?;
        match objects.get(&key) {
            // The owner, and not another of the same name.
            Some(object) if object.uid == reference.uid => {
                chain.push(self.workload(resource, &key, &object.labels));
                object.controller.clone()
            }
            Some(_) => None,
            None if objects.complete => None,
            // Not listed yet, or not allowed to be: its name is known from the
            // reference, its labels and owners are not.
            None => {
                chain.push(self.workload(resource, &key, &Labels::default()));
                None
            }
        }
    }
}
