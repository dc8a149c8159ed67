//! GPUs that running pods request and that have no sample.
//!
//! A pod whose exporter has been down since before it started has no series. Its GPUs
//! would be missing from sums and counts without notice.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::inventory::{Inventory, InventoryOrigin, Pod};
use super::{Layout, Standing, Unseen};
use apimachinery::labels::Labels;

/// Labels of NVIDIA's GPU feature discovery on nodes whose GPUs are shared
/// (NVIDIA/k8s-device-plugin, `internal/lm`).
const SHARING: &str = "nvidia.com/gpu.sharing-strategy";
const REPLICAS: &str = "nvidia.com/gpu.replicas";

impl Layout {
    /// Adds to every object the devices that its pods request and no series has shown.
    pub(super) fn add_unseen(&mut self, inventory: &Inventory) {
        if inventory.authority != InventoryOrigin::Cluster {
            return;
        }
        let seen = self.nodes_with_devices();
        let exporters: HashSet<&Arc<str>> = inventory.exporter_nodes.iter().collect();
        let watched = |node| seen.contains(node) || exporters.contains(node);
        let shared = self.shared_nodes(inventory);
        for pod in inventory.pods.iter().filter(|pod| pod.is_live()) {
            let (Some(since), Some(node)) = (pod.running_since, &pod.node) else {
                continue;
            };
            // On a shared node a request is less than a device, so it proves nothing
            // while devices of the node are seen. Without any, all devices of its pods
            // are missing.
            let shared = shared.contains(node);
            let expected = pod.gpus > 0 && watched(node) && !(shared && seen.contains(node));
            if expected && !self.is_seen(pod) {
                let unseen = Unseen {
                    since,
                    count: pod.gpus,
                    shared,
                };
                self.add_to_objects(inventory, pod, unseen);
            }
        }
    }

    fn nodes_with_devices(&self) -> HashSet<Arc<str>> {
        let nodes = self.table("nodes");
        let names = nodes.into_iter().flat_map(|(_, table)| &table.objects);
        names.map(|node| Arc::clone(&node.name)).collect()
    }

    /// Nodes whose devices several pods hold at once, by the node's labels or by the
    /// series.
    fn shared_nodes(&self, inventory: &Inventory) -> HashSet<Arc<str>> {
        let labelled = inventory
            .nodes
            .iter()
            .filter(|node| is_shared(&node.labels));
        let mut shared: HashSet<Arc<str>> = labelled.map(|node| Arc::clone(&node.name)).collect();
        for rows in &self.devices {
            let mut held = self
                .facts_of(rows)
                .filter(|facts| facts.standing == Standing::Held);
            let pod_of = |facts: &super::RowFacts| {
                let owner = facts.row.owner.as_ref()?;
                Some((Arc::clone(&owner.namespace), Arc::clone(&owner.pod)))
            };
            let Some(first) = held.next().and_then(pod_of) else {
                continue;
            };
            if held.any(|other| pod_of(other).is_some_and(|pod| pod != first)) {
                let node = inventory.pod(&first.0, &first.1);
                shared.extend(node.and_then(|pod| pod.node.clone()));
            }
        }
        shared
    }

    /// Whether a device of the pod was seen since the pod's start.
    fn is_seen(&self, pod: &Pod) -> bool {
        let object = self.object("pods", Some(&pod.namespace), &pod.name);
        let mut rows = object.into_iter().flat_map(|object| &object.members);
        rows.any(|row| !self.of_predecessors.contains_key(row))
    }

    fn add_to_objects(&mut self, inventory: &Inventory, pod: &Pod, unseen: Unseen) {
        self.cluster_unseen.push(unseen);
        let namespace = Some(&*pod.namespace);
        self.add_to("pods", namespace, &pod.name, unseen);
        self.add_to("namespaces", None, &pod.namespace, unseen);
        if let Some(node) = &pod.node {
            self.add_to("nodes", None, node, unseen);
        }
        let workloads = pod.owners.iter();
        for workload in workloads.filter_map(|index| inventory.workloads.get(*index as usize)) {
            self.add_to(&workload.kind.resource, namespace, &workload.name, unseen);
        }
    }

    fn add_to(&mut self, resource: &str, namespace: Option<&str>, name: &str, unseen: Unseen) {
        let is_asked = |table: &&mut super::KindTable| table.kind.resource.as_ref() == resource;
        if let Some(table) = self.tables.iter_mut().find(is_asked)
            && let Some(index) = table.find(namespace, name)
        {
            table.objects[index].unseen.push(unseen);
        }
    }
}

/// Whether several pods may hold a GPU of a node with these labels.
pub(super) fn is_shared(labels: &Labels) -> bool {
    let strategy = labels.get(SHARING).is_some_and(|name| name != "none");
    let replicas = labels.get(REPLICAS).and_then(|count| count.parse().ok());
    strategy || replicas.is_some_and(|count: u32| count > 1)
}
