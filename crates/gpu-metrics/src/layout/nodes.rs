//! The cluster's Nodes by the names that series have for them.
//!
//! Exporters and scrape configurations write the Node's name, its hostname label or an address,
//! or the name or the address of the exporter's pod (docs/numbers.md, "Whose a device is").

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::labels::Labels;

use crate::inventory::Inventory;

/// The label that the kubelet sets to the host's name (`k8s.io/api/core/v1`,
/// `LabelHostname`).
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Labels of NVIDIA's GPU feature discovery on nodes whose GPUs are shared
/// (NVIDIA/k8s-device-plugin, `internal/lm`).
const SHARING: &str = "nvidia.com/gpu.sharing-strategy";
const REPLICAS: &str = "nvidia.com/gpu.replicas";

/// The unambiguous names of the cluster's Nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeNames {
    /// The Node of each name; `None`: several Nodes have the name.
    nodes: HashMap<Arc<str>, Option<Arc<str>>>,
}

impl NodeNames {
    pub(crate) fn of(inventory: &Inventory) -> Self {
        let mut names = Self::default();
        for node in &inventory.nodes {
            let host = node.labels.get(HOSTNAME).into_iter();
            host.for_each(|name| names.add(name, &node.name));
        }
        for (address, node) in &inventory.node_addresses {
            names.add(address, node);
        }
        for exporter in &inventory.exporters {
            let names_of_pod = [Some(&exporter.name), exporter.address.as_ref()];
            if let Some(node) = &exporter.node {
                let all = names_of_pod.into_iter().flatten();
                all.for_each(|name| names.add(name, node));
            }
        }
        // Nodes of pods may be gone already.
        let pods = inventory.pods.iter().chain(&inventory.departed);
        let of_pods = pods
            .filter(|pod| pod.requests_gpu())
            .filter_map(|pod| pod.node.as_ref());
        // A Node's own name takes precedence over other Nodes' labels and addresses.
        for node in inventory.nodes.iter().map(|node| &node.name).chain(of_pods) {
            names.nodes.insert(Arc::clone(node), Some(Arc::clone(node)));
        }
        names
    }

    fn add(&mut self, name: &str, node: &Arc<str>) {
        if let Some(known) = self.nodes.get_mut(name) {
            if known.as_ref() != Some(node) {
                *known = None;
            }
        } else {
            self.nodes.insert(name.into(), Some(Arc::clone(node)));
        }
    }

    /// The Node of a series: its first name that is a Node's.
    pub(crate) fn named(&self, names: &[Arc<str>]) -> Option<&Arc<str>> {
        names.iter().find_map(|name| self.nodes.get(name)?.as_ref())
    }
}

/// Whether several pods may hold a GPU of a node with these labels.
pub(crate) fn is_shared(labels: &Labels) -> bool {
    let strategy = labels.get(SHARING).is_some_and(|name| name != "none");
    let replicas = labels.get(REPLICAS).and_then(|count| count.parse().ok());
    strategy || replicas.is_some_and(|count: u32| count > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_node_tell_whether_pods_share_its_gpus() {
        for (name, value, shared) in [
            (SHARING, "time-slicing", true),
            (SHARING, "none", false),
            (REPLICAS, "1", false),
            (REPLICAS, "2", true),
            (REPLICAS, "two", false),
            ("other", "2", false),
        ] {
            let labels = Labels::from_pairs([(name, value)]);
            assert_eq!(is_shared(&labels), shared, "{name}={value}");
        }
    }
}
