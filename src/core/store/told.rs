//! What the series of a row say about it. A row is what its series say
//! together, in whatever order they came, and no longer what one said that is
//! gone.

use std::sync::Arc;

use super::super::labels::Labels;
use super::super::series::{NodeName, Scheme, SeriesInfo};
use super::super::targets::TargetId;
use super::{Row, Series, Store};

/// What a series says beside whose reading it is; one copy for all signals of
/// a device.
#[derive(Debug)]
pub(super) struct Told {
    scheme: Option<Scheme>,
    proven: bool,
    suspect: bool,
    per_process: bool,
    nodes: Vec<NodeName>,
    cluster: Option<Arc<str>>,
    pub(super) labels: Arc<Labels>,
}

impl Told {
    fn is(&self, info: &SeriesInfo) -> bool {
        (self.scheme, self.proven, self.suspect, self.per_process)
            == (info.scheme, info.proven, info.suspect, info.per_process)
            && self.nodes == info.nodes
            && self.cluster == info.cluster
            && *self.labels == info.labels
    }

    /// A row of which this is all that is said.
    pub(super) fn row(&self, info: &SeriesInfo, target: TargetId) -> Row {
        Row {
            device: info.device.clone(),
            owner: info.owner.clone(),
            scheme: self.scheme,
            proven: self.proven,
            suspect: self.suspect,
            nodes: self.nodes.clone(),
            labels: Arc::clone(&self.labels),
            cluster: self.cluster.clone(),
            per_process: self.per_process,
            targets: vec![target],
            series: Vec::new(),
        }
    }
}

impl Store {
    /// What a new series says: the copy of a sibling that says the same.
    pub(super) fn told(&self, info: &SeriesInfo) -> Arc<Told> {
        let same = self
            .siblings(info)
            .iter()
            .filter_map(|id| self.series.get(id.0 as usize)?.as_ref())
            .find(|series| series.told.is(info));
        same.map_or_else(
            || {
                Arc::new(Told {
                    scheme: info.scheme,
                    proven: info.proven,
                    suspect: info.suspect,
                    per_process: info.per_process,
                    nodes: info.nodes.clone(),
                    cluster: info.cluster.clone(),
                    labels: Arc::new(info.labels.clone()),
                })
            },
            |series| Arc::clone(&series.told),
        )
    }
}

impl Row {
    /// Is what these series say, and no other; whether that makes a
    /// difference.
    pub(super) fn retell(&mut self, series: &[Option<Series>]) -> bool {
        let mut siblings: Vec<(&Arc<Told>, TargetId)> = Vec::new();
        for sibling in self
            .series
            .iter()
            .filter_map(|id| series.get(id.0 as usize)?.as_ref())
        {
            let known = |(told, target): &(&Arc<Told>, TargetId)| {
                Arc::ptr_eq(told, &sibling.told) && *target == sibling.target
            };
            if !siblings.iter().any(known) {
                siblings.push((&sibling.told, sibling.target));
            }
        }
        let Some((first, _)) = siblings.first() else {
            return false;
        };
        let all = || siblings.iter().map(|(told, _)| *told);
        let mut targets: Vec<TargetId> = siblings.iter().map(|(_, target)| *target).collect();
        targets.sort_unstable();
        targets.dedup();
        let labels = if all().all(|told| told.labels == first.labels) {
            Arc::clone(&first.labels)
        } else {
            Arc::new(Labels::agreed(all().map(|told| &*told.labels)))
        };
        let row = Self {
            scheme: all().filter_map(|told| told.scheme).min(),
            proven: all().any(|told| told.proven),
            suspect: all().any(|told| told.suspect),
            per_process: all().any(|told| told.per_process),
            nodes: join_nodes(all()),
            cluster: agreed(all().map(|told| told.cluster.as_ref())),
            labels,
            targets,
            ..self.clone()
        };
        let changed = (row.scheme, row.proven, row.suspect, row.per_process)
            != (self.scheme, self.proven, self.suspect, self.per_process)
            || row.nodes != self.nodes
            || row.cluster != self.cluster
            || row.targets != self.targets
            || row.labels != self.labels;
        *self = row;
        changed
    }
}

/// The value that all agree on.
fn agreed<'t>(mut values: impl Iterator<Item = Option<&'t Arc<str>>>) -> Option<Arc<str>> {
    let first = values.next()??;
    values
        .all(|value| value == Some(first))
        .then(|| Arc::clone(first))
}

/// Each name once, by the best label that gives it.
fn join_nodes<'t>(all: impl Iterator<Item = &'t Arc<Told>>) -> Vec<NodeName> {
    let mut named: Vec<&NodeName> = all.flat_map(|told| &told.nodes).collect();
    named.sort_unstable();
    let mut nodes: Vec<NodeName> = Vec::with_capacity(named.len());
    for node in named {
        if !nodes.iter().any(|known| known.name == node.name) {
            nodes.push(node.clone());
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::super::super::batch::Sample;
    use super::super::super::inventory::{Authority, ClusterObject, Inventory};
    use super::super::super::layout::{Layout, LayoutSettings};
    use super::super::super::policy::MigWeight;
    use super::super::super::series::Device;
    use super::super::super::signal::{SignalId, Unit};
    use super::super::super::time::Timestamp;
    use super::super::StoreSettings;
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    fn store() -> Store {
        Store::new(StoreSettings {
            retain_ms: 300_000,
            percent_as_ratio: None,
            signals: 16,
            overrides: Default::default(),
        })
    }

    fn series(signal: SignalId, nodes: &[(u8, &str)], label: &str) -> SeriesInfo {
        SeriesInfo {
            signal,
            unit: Unit::Percent,
            device: Device {
                uuid: "GPU-1".into(),
                instance: None,
                profile: None,
            },
            owner: None,
            scheme: None,
            proven: false,
            suspect: false,
            nodes: nodes
                .iter()
                .map(|(rank, name)| NodeName {
                    rank: *rank,
                    name: (*name).into(),
                })
                .collect(),
            job: "dcgm".into(),
            source: "dcgm".into(),
            instance: "node:9400".into(),
            cluster: None,
            per_process: false,
            labels: Labels::from_pairs([("label", label)]),
        }
    }

    fn row(store: &Store) -> &Row {
        store.rows().next().unwrap().1
    }

    fn nodes(store: &Store) -> Vec<&str> {
        row(store).nodes.iter().map(|node| &*node.name).collect()
    }

    fn sample(at: Timestamp) -> [Sample; 1] {
        [Sample { at, value: 1.0 }]
    }

    #[test]
    fn the_best_name_of_a_node_comes_first_whatever_the_order() {
        let one = series(SignalId::GPU_UTIL, &[(0, "z-node"), (8, "10.0.0.1")], "");
        let other = series(SignalId::FB_USED, &[(3, "b-node"), (8, "a-node")], "");
        let third = series(SignalId::FB_FREE, &[(2, "a-node")], "");
        for order in [[&one, &other, &third], [&third, &other, &one]] {
            let mut store = store();
            for info in order {
                store.register(info);
            }
            assert_eq!(nodes(&store), ["z-node", "a-node", "b-node", "10.0.0.1"]);
        }
    }

    #[test]
    fn a_row_sits_on_the_node_that_the_best_label_names() {
        let mut store = store();
        store.register(&series(SignalId::GPU_UTIL, &[(0, "z-node")], ""));
        store.register(&series(SignalId::FB_USED, &[(8, "a-node")], ""));
        let node = |name: &str| ClusterObject {
            created: None,
            name: name.into(),
            labels: Labels::default(),
        };
        let inventory = Inventory {
            authority: Authority::Cluster,
            nodes: vec![node("a-node"), node("z-node")],
            ..Inventory::default()
        };
        let settings = LayoutSettings {
            mig_weight: MigWeight::Equal,
        };
        let layout = Layout::build(store.rows(), |_| NOW, Arc::new(inventory), settings);
        let (_, table) = layout.table("nodes").unwrap();
        let names: Vec<&str> = table.objects.iter().map(|object| &*object.name).collect();
        assert_eq!(names, ["z-node"]);
    }

    #[test]
    fn what_only_a_series_said_that_is_gone_is_forgotten() {
        let mut store = store();
        let mut old = series(SignalId::GPU_UTIL, &[(0, "old-node")], "a");
        old.proven = true;
        let old = store.register(&old);
        let new = store.register(&series(SignalId::FB_USED, &[(8, "new-node")], "b"));
        store.apply(old, &sample(NOW), NOW);
        let later = Timestamp::from_millis(NOW.millis() + 3_600_000);
        store.apply(new, &sample(later), later);
        assert!(row(&store).proven);
        let before = store.generation();
        assert!(store.sweep(later).contains(&old));
        assert_eq!(nodes(&store), ["new-node"]);
        assert!(!row(&store).proven);
        assert_eq!(row(&store).labels.get("label"), Some("b"));
        assert!(store.generation() > before);
        let after = store.generation();
        assert!(store.sweep(later).is_empty());
        assert_eq!(store.generation(), after);
    }

    #[test]
    fn series_that_say_the_same_share_one_copy() {
        let mut store = store();
        for signal in [SignalId::GPU_UTIL, SignalId::FB_USED, SignalId::FB_FREE] {
            store.register(&series(signal, &[(0, "node")], "a"));
        }
        let told: Vec<_> = store.series.iter().flatten().map(|s| &s.told).collect();
        assert!(told.iter().all(|one| Arc::ptr_eq(one, told[0])));
        assert!(Arc::ptr_eq(&row(&store).labels, &told[0].labels));
    }
}
