//! The cluster's Nodes: resolves the node names in series, and reads the Nodes' labels.
//!
//! Exporters and scrape configurations write the Node's name, its short name, its
//! fully qualified name or an address (docs/attribution.md, "Nodes").

use std::collections::HashMap;
use std::sync::Arc;

use super::super::inventory::Inventory;
use super::super::series::NodeName;
use apimachinery::labels::Labels;

/// The label that the kubelet sets to the host's name
/// (`k8s.io/api/core/v1`, `LabelHostname`).
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Labels of NVIDIA's GPU feature discovery on nodes whose GPUs are shared
/// (NVIDIA/k8s-device-plugin, `internal/lm`).
const SHARING: &str = "nvidia.com/gpu.sharing-strategy";
const REPLICAS: &str = "nvidia.com/gpu.replicas";

/// The unambiguous names of the cluster's Nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeNames {
    /// The Node of each name; `None`: several Nodes have the name.
    nodes: HashMap<Arc<str>, Option<Arc<str>>>,
}

impl NodeNames {
    pub(super) fn of(inventory: &Inventory) -> Self {
        let mut names = Self {
            nodes: HashMap::with_capacity(inventory.nodes.len()),
        };
        for node in &inventory.nodes {
            let host = node.labels.get(HOSTNAME);
            for name in host.into_iter().chain([&*node.name]) {
                names.add(name, &node.name);
                if let Some(short) = short(name) {
                    names.add(short, &node.name);
                }
            }
        }
        for (address, node) in &inventory.node_addresses {
            names.add(address, node);
        }
        // A Node's own name takes precedence over other Nodes' labels and addresses.
        for node in &inventory.nodes {
            let name = Arc::clone(&node.name);
            names.nodes.insert(Arc::clone(&name), Some(name));
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

    /// The Node that a label names. A fully qualified name matches the Node whose name is
    /// its first part. Two names with different domains are two hosts.
    pub(super) fn resolve(&self, name: &str) -> Option<&Arc<str>> {
        if let Some(known) = self.nodes.get(name) {
            return known.as_ref();
        }
        let short = short(name)?;
        let node = self.nodes.get(short)?.as_ref()?;
        (**node == *short).then_some(node)
    }

    /// The Node of a series: its first name that resolves.
    pub(super) fn named(&self, names: &[NodeName]) -> Option<&Arc<str>> {
        names.iter().find_map(|named| self.resolve(&named.name))
    }
}

/// The first part of a fully qualified name. An address has none: no domain ends in a
/// number.
fn short(name: &str) -> Option<&str> {
    let (short, domain) = name.split_once('.')?;
    let last = domain.rsplit('.').next().unwrap_or(domain);
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    (!short.is_empty() && !is_number).then_some(short)
}

/// Whether several pods may hold a GPU of a node with these labels.
pub(super) fn is_shared(labels: &Labels) -> bool {
    let strategy = labels.get(SHARING).is_some_and(|name| name != "none");
    let replicas = labels.get(REPLICAS).and_then(|count| count.parse().ok());
    strategy || replicas.is_some_and(|count: u32| count > 1)
}

#[cfg(test)]
mod tests {
    use super::super::super::inventory::ClusterObject;
    use super::*;

    #[test]
    fn names_host_names_and_addresses_match_one_node_or_none() {
        let node = |(name, host): (&str, &str)| ClusterObject {
            name: name.into(),
            labels: Labels::from_pairs([(HOSTNAME, host)]),
            created: None,
        };
        let nodes = [
            ("a", "a"),
            ("b.dc1.local", "b.dc1.local"),
            ("i-0a1", "ip-10-0-0-1.ec2.internal"),
            ("10", "10"),
            ("c.dc1", "gpu"),
            ("c.dc2", "gpu"),
            ("d", "c.dc1"),
        ];
        let addresses = [
            ("10.0.0.1", "i-0a1"),
            ("fd00::2", "a"),
            ("10.0.0.2", "d"),
            ("10.0.0.2", "a"),
        ];
        let known = NodeNames::of(&Inventory {
            nodes: nodes.map(node).into(),
            node_addresses: addresses.map(|(it, of)| (it.into(), of.into())).into(),
            ..Inventory::default()
        });
        for (name, node) in [
            ("a", Some("a")),
            ("a.dc1.local", Some("a")),
            ("b.dc1.local", Some("b.dc1.local")),
            ("b", Some("b.dc1.local")),
            ("b.dc2.local", None),
            ("e.dc1.local", None),
            ("", None),
            (".", None),
            ("ip-10-0-0-1.ec2.internal", Some("i-0a1")),
            ("ip-10-0-0-1", Some("i-0a1")),
            ("10.0.0.1", Some("i-0a1")),
            ("fd00::2", Some("a")),
            ("10.0.0.3", None),
            // Several Nodes have these names.
            ("c", None),
            ("gpu", None),
            ("10.0.0.2", None),
            // A Node's own name takes precedence over another Node's host name.
            ("c.dc1", Some("c.dc1")),
        ] {
            assert_eq!(known.resolve(name).map(AsRef::as_ref), node, "{name}");
        }
    }
}
