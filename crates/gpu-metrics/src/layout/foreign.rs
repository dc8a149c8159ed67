//! Finds the lines of other clusters. Names of namespaces and pods repeat across clusters: a
//! line of another one must not be attributed to a local pod of the same name.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::Named;
use crate::line::{Device, Line};

/// What shows that lines are of other clusters.
pub(super) struct Foreign<'a> {
    /// The clusters that lines name, as `cluster=prod`, and whether each is this one.
    clusters: BTreeMap<&'a str, Evidence>,
    /// Devices of which a line names a Node of this cluster.
    ours: HashSet<&'a Device>,
    /// The names of no Node on which lines name pods of this cluster.
    nodes: BTreeSet<&'a Arc<str>>,
}

/// The number of lines that prove a cluster's name local, and of those that contradict it.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    local: u32,
    strange: u32,
}

impl Evidence {
    /// In another cluster a few pods may have the names and nodes of local ones.
    fn is_ours(self) -> bool {
        self.local > 0 && self.local >= self.strange
    }
}

impl<'a> Foreign<'a> {
    pub(super) fn among(lines: &[Named<'a>]) -> Self {
        let mut clusters: BTreeMap<&str, Evidence> = BTreeMap::new();
        for named in lines {
            let line: &'a Line = named.line;
            let Some(cluster) = &line.cluster else {
                continue;
            };
            let of = clusters.entry(cluster).or_default();
            match is_local(named) {
                Some(true) => of.local += 1,
                Some(false) => of.strange += 1,
                None => {}
            }
        }
        let are_strange = lines.iter().any(is_on_no_node);
        let ours = lines
            .iter()
            .filter(|named| are_strange && named.node.is_some());
        let mut foreign = Self {
            clusters,
            ours: ours.map(|named| &named.line.device).collect(),
            nodes: BTreeSet::new(),
        };
        let known = lines.iter().filter(|named| named.pod.is_some());
        let nodes = known.filter_map(|named| foreign.strange_node(named));
        foreign.nodes = nodes.collect();
        foreign
    }

    /// Whether a line is of another cluster: its labels name another one than the lines of
    /// this one do, or lines name pods of this one on its node, which is no Node.
    pub(super) fn is(&self, named: &Named<'a>) -> bool {
        if is_local(named) == Some(true) {
            return false;
        }
        let cluster = named.line.cluster.as_deref();
        let cluster = cluster.and_then(|name| self.clusters.get(name));
        let is_proven = || self.clusters.values().any(|it| it.is_ours());
        let node = self.strange_node(named);
        node.is_some_and(|node| self.nodes.contains(node))
            || cluster.is_some_and(|it| !it.is_ours() && is_proven())
    }

    /// The node of a line that is no Node, while other lines name Nodes.
    fn strange_node(&self, named: &Named<'a>) -> Option<&'a Arc<str>> {
        let line: &'a Line = named.line;
        let is_ours = self.ours.is_empty() || self.ours.contains(&line.device);
        let is_strange = is_on_no_node(named) && !is_ours;
        line.nodes.first().filter(|_| is_strange)
    }

    pub(super) fn nodes(&self) -> Vec<Arc<str>> {
        self.nodes.iter().map(|name| Arc::clone(name)).collect()
    }

    pub(super) fn several(&self) -> Vec<Arc<str>> {
        let are_several = self.clusters.len() > 1;
        let names = self.clusters.keys().filter(|_| are_several);
        names.map(|name| Arc::from(*name)).collect()
    }
}

fn is_on_no_node(named: &Named<'_>) -> bool {
    named.node.is_none() && named.line.names_node
}

/// Whether a line is of this cluster: its pod is known, and on the Node that the line names.
/// `None`: it names no pod, or a known one but no node that is known.
fn is_local(named: &Named<'_>) -> Option<bool> {
    named.line.claim.owner.as_ref()?;
    let Some(pod) = named.pod else {
        return Some(false);
    };
    Some(named.node? == pod.node.as_ref()?)
}
