//! An inventory out of what is known: owners followed upward, services through
//! their selectors.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::kinds::{OwnerKind, Used, Uses};
use super::services::Services;
use super::state::{KeptObject, KeptPod, Key, OwnerRef, State, Table};
use crate::core::inventory::{
    Authority, ClusterObject, ExporterPod, Inventory, ObjectKind, Pod, Workload,
};
use crate::core::labels::Labels;
use crate::core::time::Timestamp;

/// Longest chain of controllers; pod, ReplicaSet, Deployment and what made it
/// are four. References that form a ring end here too.
const LONGEST_CHAIN: usize = 8;

/// What a walk up the controllers found, by where it began: namespace, first
/// controller, and whether the pod asks for GPUs.
type Chains = HashMap<(Arc<str>, OwnerRef, bool), Vec<u32>>;

/// Resource, namespace and name.
type WorkloadKey = (Arc<str>, Arc<str>, Arc<str>);

/// A snapshot under construction.
struct Walk<'a> {
    state: &'a State,
    services: Services<'a>,
    /// Places of services among the workloads.
    placed: Vec<Option<u32>>,
    service_kind: ObjectKind,
    workloads: Vec<Workload>,
    /// Places of workloads.
    known: HashMap<WorkloadKey, u32>,
    chains: Chains,
    /// Kinds that GPU pods have.
    used: Uses,
}

/// Makes an inventory, notes which kinds are used, and tidies the pool.
pub(super) fn inventory(state: &mut State, now: Instant) -> Inventory {
    let mut walk = Walk::new(state);
    let mut pods = Vec::with_capacity(state.pods.len());
    for (key, pod) in state.pods.iter() {
        let mut owners = Vec::new();
        // A pod that is in no answer needs no owners.
        if pod.is_live() {
            if let Some(controller) = &pod.controller {
                owners.extend(walk.owners(&key.0, controller, pod.requests_gpu()));
            }
            if pod.requests_gpu() {
                walk.add_services(key, pod, &mut owners);
            }
        }
        pods.push(cut(key, pod, owners));
    }
    // Then, as far as the limits allow, those that may hold a GPU without
    // having asked for one; a pod without a node holds nothing.
    for ((key, pod), made) in state.pods.iter().zip(&mut pods) {
        if pod.is_live() && !pod.requests_gpu() && pod.node.is_some() {
            walk.add_services(key, pod, &mut made.owners);
        }
    }
    let Walk {
        workloads,
        used,
        services,
        ..
    } = walk;
    let left_out = services.left_out;
    let (exporters, exporter_nodes) = exporters(&state.pods);
    let inventory = Inventory {
        authority: Authority::Cluster,
        pods,
        departed: Vec::new(),
        exporter_nodes,
        exporters,
        namespaces: cluster_objects(&state.namespaces),
        nodes: cluster_objects(&state.nodes),
        workloads,
    };
    if let Some(what) = left_out
        && !std::mem::replace(&mut state.told_services, true)
    {
        tracing::warn!("{what} (later ones are not told)");
    }
    state.kinds.set_used(used, now);
    state.pool.purge();
    inventory
}

fn cut((namespace, name): &Key, pod: &KeptPod, owners: Vec<u32>) -> Pod {
    Pod {
        namespace: Arc::clone(namespace),
        name: Arc::clone(name),
        labels: pod.labels.clone(),
        node: pod.node.clone(),
        phase: pod.phase,
        terminating: pod.terminating,
        started: pod.started,
        running_since: pod.running_since,
        gpus: pod.gpus,
        claims: pod.claims,
        owners,
    }
}

/// What looks like an exporter, running or not, and the nodes of it.
fn exporters(pods: &Table<KeptPod>) -> (Vec<ExporterPod>, Vec<Arc<str>>) {
    let (mut exporters, mut nodes) = (Vec::new(), BTreeSet::new());
    for ((namespace, name), pod) in pods.iter() {
        let Some(address) = &pod.exporter else {
            continue;
        };
        exporters.push(ExporterPod {
            namespace: Arc::clone(namespace),
            name: Arc::clone(name),
            address: Some(Arc::clone(address)).filter(|address| !address.is_empty()),
        });
        nodes.extend(pod.node.clone());
    }
    (exporters, nodes.into_iter().collect())
}

fn cluster_objects(table: &Table<KeptObject>) -> Vec<ClusterObject> {
    let object = |((_, name), object): (&Key, &KeptObject)| ClusterObject {
        name: Arc::clone(name),
        labels: object.labels.clone(),
        created: object.created,
    };
    table.iter().map(object).collect()
}

impl<'a> Walk<'a> {
    fn new(state: &'a State) -> Self {
        let services = Services::of(&state.services);
        Self {
            state,
            placed: vec![None; services.len()],
            services,
            service_kind: ObjectKind::service(),
            workloads: Vec::new(),
            known: HashMap::new(),
            chains: Chains::new(),
            used: Uses::new(),
        }
    }

    fn workload(
        &mut self,
        kind: &ObjectKind,
        key: &Key,
        labels: &Labels,
        created: Option<Timestamp>,
    ) -> u32 {
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
                created,
            });
            u32::try_from(self.workloads.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn add_services(&mut self, key: &Key, pod: &KeptPod, owners: &mut Vec<u32>) {
        let selecting = self.services.selecting(key, &pod.labels);
        owners.reserve_exact(selecting.len());
        for index in selecting.iter() {
            let known = self.placed.get(*index as usize).copied().flatten();
            let place = known.or_else(|| {
                let (key, service) = self.services.get(*index)?;
                let kind = self.service_kind.clone();
                Some(self.workload(&kind, key, &service.labels, service.created))
            });
            if let Some(placed) = self.placed.get_mut(*index as usize) {
                *placed = place;
            }
            owners.extend(place);
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
            let used = self.used.entry(kind.clone()).or_insert_with(|| Used {
                kind: Arc::clone(&reference.kind),
                namespaces: BTreeSet::new(),
            });
            if !used.namespaces.contains(namespace) {
                used.namespaces.insert(Arc::clone(namespace));
            }
        }
        let OwnerKind {
            resource, objects, ..
        } = state.kinds.get(&kind)?;
        match objects.get(&key) {
            // The owner, and not another of the same name.
            Some(object) if object.uid == reference.uid => {
                chain.push(self.workload(resource, &key, &object.labels, object.created));
                object.controller.clone()
            }
            Some(_) => None,
            None if objects.complete => None,
            // Not listed yet, or not allowed to be: its name is known from the
            // reference, its labels and owners are not.
            None => {
                chain.push(self.workload(resource, &key, &Labels::default(), None));
                None
            }
        }
    }
}
