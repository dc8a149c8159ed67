//! Makes an inventory from the watched objects: follows owners upward.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::objects::{KeptObject, OwnerRef};
use super::pool::KindName;
use super::state::WatchedObjects;
use super::table::{Key, Table};
use apimachinery::labels::Labels;
use gpu_metrics::inventory::{
    ClusterObject, Inventory, InventoryOrigin, ObjectKind, Pod, Workload,
};

/// The longest chain of controllers. Pod, ReplicaSet, Deployment and its controller
/// are four. Also ends cyclic references.
const LONGEST_CHAIN: usize = 8;

/// Kinds of objects whose name is the beginning of their pods' names. ReplicaSets are left
/// out: most are old ones without future pods, and their Deployments are included.
const NAMED_AFTER: [(&str, &str); 3] = [
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
];

/// Chains of controllers as indices of workloads, by namespace, first controller, and
/// whether the pod requests GPUs.
type Chains = HashMap<(Arc<str>, OwnerRef, bool), Vec<u32>>;

/// Resource, namespace and name.
type WorkloadKey = (Arc<str>, Arc<str>, Arc<str>);

/// The inventory of the watched objects; `None`: the required collections are not listed yet.
/// Also purges the pool, forgets pods that were deleted long ago, and follows the kinds of the
/// owners of GPU pods.
pub(super) fn snapshot(objects: &mut WatchedObjects, now: Instant) -> Option<Inventory> {
    objects.departed.expire(now, objects.settings.remember);
    let snapshot = objects.are_listed().then(|| {
        let (inventory, used) = inventory(objects);
        objects.kinds.retain(|kind, _| used.contains(kind));
        for kind in used {
            objects.kinds.entry(kind).or_default();
        }
        inventory
    });
    objects.pool.purge();
    snapshot
}

/// The owners of pods, followed upward.
struct Walk<'a> {
    objects: &'a WatchedObjects,
    workloads: Vec<Workload>,
    /// Indices of workloads.
    known: HashMap<WorkloadKey, u32>,
    chains: Chains,
    /// Controllers of deleted owners, by the UID of the owner.
    gone: HashMap<u64, OwnerRef>,
    /// Kinds of the owners of GPU pods.
    used: BTreeSet<KindName>,
}

/// The inventory, and the kinds in use.
fn inventory(objects: &WatchedObjects) -> (Inventory, BTreeSet<KindName>) {
    let mut walk = Walk {
        objects,
        workloads: Vec::new(),
        known: HashMap::new(),
        chains: Chains::new(),
        gone: objects.departed.controllers(),
        used: BTreeSet::new(),
    };
    let pods = objects.pods.iter();
    let pods = pods.filter_map(|(key, pod)| walk.pod(key, pod)).collect();
    let departed = objects.departed.pods(&objects.pods).into_iter();
    let departed = departed.filter_map(|(key, pod)| walk.pod(key, pod));
    let departed = departed.collect();
    walk.add_idle();
    let exporters = objects.pods.pods();
    let inventory = Inventory {
        authority: InventoryOrigin::Cluster,
        listed: objects.listed,
        pods,
        departed,
        exporters: exporters.filter_map(|it| it.exporter.clone()).collect(),
        namespaces: cluster_objects(&objects.namespaces),
        nodes: cluster_objects(&objects.nodes),
        node_addresses: node_addresses(&objects.pods),
        workloads: walk.workloads,
    };
    (inventory, walk.used)
}

/// The IP address and the name of each node, as its pods report them.
fn node_addresses(pods: &Table) -> Vec<(Arc<str>, Arc<str>)> {
    let told = pods.pods();
    let told = told.filter_map(|it| Some((it.host.clone()?, it.pod.node.clone()?)));
    let told: BTreeSet<(Arc<str>, Arc<str>)> = told.collect();
    told.into_iter().collect()
}

fn cluster_objects(table: &Table) -> Vec<ClusterObject> {
    let object = |((_, name), object): (&Key, &KeptObject)| ClusterObject {
        name: Arc::clone(name),
        labels: object.labels.clone(),
        created: object.created,
    };
    table.iter().map(object).collect()
}

impl Walk<'_> {
    /// A pod with its controllers. A terminating pod has them too, because its samples still
    /// count for them.
    fn pod(&mut self, key: &Key, object: &KeptObject) -> Option<Pod> {
        let mut pod = object.pod.as_ref()?.pod.clone();
        if let Some(controller) = &object.controller {
            pod.owners = self.owners(&key.0, controller, pod.requests_gpu());
        }
        Some(pod)
    }

    /// The index of a workload. The labels of an object that is not listed are not known.
    fn workload(&mut self, kind: &ObjectKind, key: &Key, object: Option<&KeptObject>) -> u32 {
        let (namespace, name) = (Arc::clone(&key.0), Arc::clone(&key.1));
        let at = (Arc::clone(&kind.resource), namespace, name);
        *self.known.entry(at).or_insert_with(|| {
            self.workloads.push(Workload {
                kind: kind.clone(),
                namespace: Arc::clone(&key.0),
                name: Arc::clone(&key.1),
                labels: object.map_or_else(Labels::default, |object| object.labels.clone()),
                created: object.and_then(|object| object.created),
            });
            u32::try_from(self.workloads.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Adds the workloads that have no pods now. A workload scaled to zero still has
    /// samples, whose pods are attributed to it by their names.
    fn add_idle(&mut self) {
        let objects = self.objects;
        for (group, name) in NAMED_AFTER {
            let kind = objects.kinds.get(&KindName::new(group, name));
            let Some((kind, resource)) = kind.and_then(|it| Some((it, it.resource.as_ref()?)))
            else {
                continue;
            };
            for (key, object) in kind.objects.iter() {
                self.workload(resource, key, Some(object));
            }
        }
    }

    /// The chain of controllers, starting with `first`, as indices of workloads.
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

    /// One step upward; returns the next reference.
    fn step(
        &mut self,
        namespace: &Arc<str>,
        reference: &OwnerRef,
        gpu: bool,
        chain: &mut Vec<u32>,
    ) -> Option<OwnerRef> {
        let objects = self.objects;
        let key = (Arc::clone(namespace), Arc::clone(&reference.name));
        // A pod can be the controller of pods (Spark's driver). The controller's values are
        // its own. The controller of the driver counts as the controller of the other pods.
        if reference.kind.group.is_empty() && &*reference.kind.kind == "Pod" {
            let Some(pod) = objects.pods.get(&key) else {
                return self.gone.get(&reference.uid).cloned();
            };
            return pod.controller.clone();
        }
        if gpu {
            self.used.insert(reference.kind.clone());
        }
        let followed = objects.kinds.get(&reference.kind)?;
        let (resource, owners) = (followed.resource.as_ref()?, &followed.objects);
        if !owners.complete {
            // The owner is not listed yet, or its kind is forbidden. Its name is known from
            // the reference; its labels and its controller are not.
            chain.push(self.workload(resource, &key, None));
            return None;
        }
        match owners.get(&key) {
            // An object of the same name with another UID is not this owner.
            Some(object) if object.uid == reference.uid => {
                chain.push(self.workload(resource, &key, Some(object)));
                object.controller.clone()
            }
            // The owner was deleted and is no workload any more. Its controller may still exist.
            _ => self.gone.get(&reference.uid).cloned(),
        }
    }
}
