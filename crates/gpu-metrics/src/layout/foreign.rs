//! Finds the lines of other clusters. Names of namespaces and pods repeat across clusters: a
//! line of another one must not be attributed to a local pod of the same name.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::Named;
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

/// What a row's other labels show about its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// Its pod is known here, on the node that the row names.
    Local,
    /// It names a pod that is not known here, or is on another node.
    Foreign,
    /// It names no pod, or a known one but no node that is known.
    None,
}

/// The number of rows that prove a cluster's name local, and of those that contradict it.
#[derive(Clone, Copy, Debug, Default)]
struct ClusterEvidence {
    ours: u32,
    strange: u32,
}

/// The clusters that rows name, as `cluster=prod`, with commas between several labels.
#[derive(Clone, Debug, Default)]
struct Clusters<'a> {
    names: BTreeMap<&'a str, ClusterEvidence>,
    /// Names for which at least half of the conclusive rows are local: in another cluster
    /// a few pods may have the names and nodes of local ones.
    ours: Vec<&'a str>,
}

impl<'a> Clusters<'a> {
    /// The clusters that these rows name.
    fn among(rows: impl IntoIterator<Item = (&'a str, Proof)>) -> Self {
        let mut names: BTreeMap<&str, ClusterEvidence> = BTreeMap::new();
        for (cluster, proof) in rows {
            let tally = names.entry(cluster).or_default();
            match proof {
                Proof::Local => tally.ours += 1,
                Proof::Foreign => tally.strange += 1,
                Proof::None => {}
            }
        }
        let proven = |tally: &ClusterEvidence| tally.ours > 0 && tally.ours >= tally.strange;
        let ours = names.iter().filter(|(_, tally)| proven(tally));
        let ours = ours.map(|(name, _)| *name).collect();
        Self { names, ours }
    }

    /// All names, sorted.
    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.names.keys().copied()
    }

    /// Whether the store holds more than one cluster: names that contradict each other,
    /// or foreign rows.
    fn are_several(&self) -> bool {
        let mut names = self.names();
        names.any(|name| {
            self.is_foreign(name) || self.names().any(|other| agree(name, other) == Some(false))
        })
    }

    /// Whether a row with this name is another cluster's: some name is proven local, and
    /// this one agrees with none of those. Without proof no row is foreign.
    fn is_foreign(&self, cluster: &str) -> bool {
        let agrees = |ours: &&str| agree(ours, cluster) == Some(true);
        !self.ours.is_empty()
            && self.ours.binary_search(&cluster).is_err()
            && !self.ours.iter().any(agrees)
    }
}

/// Whether two names agree in the labels that both have; `None`: they share no label.
fn agree(one: &str, other: &str) -> Option<bool> {
    let mut common = one.split(',').filter_map(|pair| {
        let (label, value) = pair.split_once('=')?;
        let mut others = other.split(',').filter_map(|pair| pair.split_once('='));
        let (_, found) = others.find(|(known, _)| *known == label)?;
        Some(found == value)
    });
    let first = common.next()?;
    Some(first && common.all(|same| same))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters<'a>(rows: &[(&'a str, Proof)]) -> Clusters<'a> {
        Clusters::among(rows.iter().copied())
    }

    #[test]
    fn rows_of_another_cluster_are_foreign_once_one_is_proven_ours() {
        let west_with_a_few_local_names = [
            vec![("cluster=west", Proof::Foreign); 9],
            vec![("cluster=west", Proof::Local)],
            vec![("cluster=east", Proof::Local)],
        ];
        for (rows, foreign) in [
            (
                vec![
                    ("cluster=east", Proof::Local),
                    ("cluster=east", Proof::None),
                    ("cluster=west", Proof::Foreign),
                ],
                &["cluster=west"][..],
            ),
            (west_with_a_few_local_names.concat(), &["cluster=west"]),
            // Without proof no row is foreign.
            (
                vec![
                    ("cluster=east", Proof::None),
                    ("cluster=west", Proof::Foreign),
                ],
                &[],
            ),
            // A pod's label may be called `cluster`.
            (
                vec![
                    ("cluster=ray-a", Proof::Local),
                    ("cluster=ray-b", Proof::Local),
                ],
                &[],
            ),
        ] {
            let known = clusters(&rows);
            assert!(known.are_several());
            let found = known.names().filter(|name| known.is_foreign(name));
            assert_eq!(found.collect::<Vec<_>>(), foreign);
        }
    }

    #[test]
    fn names_are_compared_label_by_label() {
        let ours = ("cluster=gpu,project_id=a", Proof::Local);
        let known = clusters(&[ours, ("cluster=gpu,project_id=b", Proof::None)]);
        assert!(known.are_several());
        assert!(known.is_foreign("cluster=gpu,project_id=b"));
        let partly = clusters(&[ours, ("project_id=a", Proof::None)]);
        assert!(!partly.are_several());
        assert!(!partly.is_foreign("project_id=a"));
        assert!(partly.is_foreign("k8s_cluster=other"));
        assert!(!clusters(&[]).are_several());
    }
}
