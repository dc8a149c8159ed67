//! Several clusters in one store: which rows belong to another cluster.
//!
//! A row names its cluster as `cluster=prod`, with commas between several labels. Names
//! of namespaces and pods repeat across clusters: a row of another cluster must not be
//! attributed to a local pod of the same name.

use std::collections::BTreeMap;

/// What a row's other labels show about its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
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

/// The clusters that rows name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters<'a> {
    names: BTreeMap<&'a str, ClusterEvidence>,
    /// Names for which at least half of the conclusive rows are local: in another cluster
    /// a few pods may have the names and nodes of local ones.
    ours: Vec<&'a str>,
}

impl<'a> Clusters<'a> {
    /// The clusters that these rows name.
    pub(crate) fn among(rows: impl IntoIterator<Item = (&'a str, Proof)>) -> Self {
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
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.names.keys().copied()
    }

    /// Whether the store holds more than one cluster: names that contradict each other,
    /// or foreign rows.
    pub(crate) fn are_several(&self) -> bool {
        let mut names = self.names();
        names.any(|name| {
            self.is_foreign(name) || self.names().any(|other| agree(name, other) == Some(false))
        })
    }

    /// Whether a row with this name is another cluster's: some name is proven local, and
    /// this one agrees with none of those. Without proof no row is foreign.
    pub(crate) fn is_foreign(&self, cluster: &str) -> bool {
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
