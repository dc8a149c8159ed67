//! GPUs that running pods request and that have no sample.
//!
//! A pod whose exporter has been down since before it started has no series. Its GPUs
//! would be missing from sums and counts without notice.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::inventory::InventoryOrigin;
use super::gather::Building;
use super::nodes::is_shared;
use super::{Attribution, Layout, Object, Unseen};

impl<'a> Building<'a> {
    /// Adds to every object the devices that its pods request and no series has shown.
    pub(super) fn add_unseen(&mut self, layout: &Layout) {
        let inventory = self.inventory;
        if inventory.authority != InventoryOrigin::Cluster {
            return;
        }
        let exporters: HashSet<&Arc<str>> = inventory.exporter_nodes.iter().collect();
        let shared_nodes = self.shared_nodes(layout);
        for (pod, object) in inventory.pods.iter().zip(&mut self.pods) {
            let (Some(since), Some(node)) = (pod.running_since, &pod.node) else {
                continue;
            };
            if pod.gpus == 0 || !pod.is_live() || is_seen(object.as_ref(), layout) {
                continue;
            }
            // On a shared node a request is less than a device, so it proves nothing
            // while devices of the node are seen. Without any, all devices of its pods
            // are missing.
            let (count, shared) = (pod.gpus, shared_nodes.contains(&**node));
            let is_expected = match self.nodes.contains_key(&**node) {
                true => !shared,
                false => exporters.contains(node),
            };
            if !is_expected {
                continue;
            }
            let unseen = Unseen {
                since,
                count,
                shared,
            };
            self.cluster.unseen.push(unseen);
            for index in &pod.owners {
                let workload = self.workloads.get_mut(*index as usize);
                add(workload.and_then(Option::as_mut), unseen);
            }
            add(object.as_mut(), unseen);
            add(self.namespaces.get_mut(&*pod.namespace), unseen);
            add(self.nodes.get_mut(&**node), unseen);
        }
    }

    /// Nodes whose devices several pods hold at once, by the node's labels or by the
    /// series.
    fn shared_nodes(&self, layout: &Layout) -> HashSet<&'a str> {
        let inventory = self.inventory;
        let nodes = inventory.nodes.iter();
        let labelled = nodes.filter(|node| is_shared(&node.labels));
        let mut shared: HashSet<&'a str> = labelled.map(|node| &*node.name).collect();
        for rows in layout.devices.all().filter(|rows| rows.len() > 1) {
            let held = layout.facts_of(rows);
            let held = held.filter(|facts| facts.attribution == Attribution::Held);
            let mut pods = held.filter_map(|facts| {
                let owner = facts.row.owner.as_ref()?;
                Some((&*owner.namespace, &*owner.pod))
            });
            let Some(first) = pods.next() else { continue };
            if pods.any(|pod| pod != first) {
                let pod = inventory.pod(first.0, first.1);
                shared.extend(pod.and_then(|pod| pod.node.as_deref()));
            }
        }
        shared
    }
}

/// Whether a device of the pod was seen since the pod's start.
fn is_seen(pod: Option<&Object>, layout: &Layout) -> bool {
    let mut rows = pod.into_iter().flat_map(|pod| &pod.members);
    rows.any(|row| !layout.of_predecessors.contains_key(row))
}

fn add(object: Option<&mut Object>, unseen: Unseen) {
    if let Some(object) = object {
        object.unseen.push(unseen);
    }
}
