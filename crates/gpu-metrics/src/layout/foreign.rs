//! Finds the lines of other clusters.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::Named;
use super::clusters::{Clusters, Proof};
use crate::inventory::{Inventory, InventoryOrigin};
use crate::line::Line;
use crate::series::Device;

/// The lines of other clusters.
pub(super) struct Foreign<'a> {
    clusters: Clusters<'a>,
    /// Nodes of other clusters, as the lines of a source name them.
    nodes: HashSet<(&'a str, &'a str)>,
    /// Devices of which a line names a Node of this cluster.
    ours: HashSet<&'a Device>,
}

impl<'a> Foreign<'a> {
    /// A line that names a pod of this cluster on a node that is no Node here, though other
    /// lines name Nodes, is of another cluster, as are all of that node.
    pub(super) fn among(lines: &[Named<'a>], inventory: &Inventory) -> Self {
        let evidence = lines.iter().filter_map(|named| {
            let cluster = named.line.cluster.as_deref()?;
            Some((cluster, proof(named)))
        });
        let is_strange = |named: &Named<'_>| named.node.is_none() && named.line.names_node;
        let are_strange = lines.iter().any(is_strange);
        let ours = lines
            .iter()
            .filter(|named| are_strange && named.node.is_some());
        let mut foreign = Self {
            clusters: Clusters::among(evidence),
            nodes: HashSet::new(),
            ours: ours.map(|named| &named.line.device).collect(),
        };
        if inventory.authority == InventoryOrigin::Cluster && !foreign.ours.is_empty() {
            let elsewhere = lines.iter().filter(|named| named.pod.is_some());
            let nodes = elsewhere.filter_map(|named| foreign.unknown_node(named));
            foreign.nodes = nodes.collect();
        }
        foreign
    }

    /// The source of a line and the name of its node, if that is no Node of this cluster.
    fn unknown_node(&self, named: &Named<'a>) -> Option<(&'a str, &'a str)> {
        let line: &'a Line = named.line;
        let is_unknown =
            named.node.is_none() && line.names_node && !self.ours.contains(&line.device);
        let name = &line.nodes.first()?.name;
        is_unknown.then_some((&line.source, name))
    }

    pub(super) fn is(&self, named: &Named<'a>) -> bool {
        if proof(named) == Proof::Local {
            return false;
        }
        let node = self.unknown_node(named);
        let cluster = named.line.cluster.as_deref();
        node.is_some_and(|node| self.nodes.contains(&node))
            || cluster.is_some_and(|name| self.clusters.is_foreign(name))
    }

    pub(super) fn nodes(&self) -> Vec<Arc<str>> {
        let names: BTreeSet<&str> = self.nodes.iter().map(|(_, node)| *node).collect();
        names.into_iter().map(Into::into).collect()
    }

    pub(super) fn several(&self) -> Vec<Arc<str>> {
        let several = self.clusters.are_several();
        let names = self.clusters.names().filter(|_| several);
        names.map(Into::into).collect()
    }
}

/// Whether a line is of this cluster: its pod is known, and on the Node that the line names.
fn proof(named: &Named<'_>) -> Proof {
    if named.line.owner.is_none() {
        return Proof::None;
    }
    let Some(pod) = named.pod else {
        return Proof::Foreign;
    };
    match (named.node, &pod.node) {
        (Some(node), Some(own)) if node == own => Proof::Local,
        (Some(_), Some(_)) => Proof::Foreign,
        (None, _) | (_, None) => Proof::None,
    }
}
