//! Combines the labels of a row's series. Only series that are still read count, because
//! an upgrade of an exporter that renames a label ends one series and begins another
//! (docs/attribution.md, "Labels"). The order of the series does not matter.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::series::{LabelFacts, NodeName, SeriesInfo};
use super::super::signal::SignalId;
use super::super::targets::{TargetId, Targets};
use super::{DeviceRow, Series, SeriesId, Store};
use apimachinery::time::Timestamp;

impl Store {
    /// The label contents of a new series: a sibling's copy if it is equal.
    pub(super) fn label_facts(&self, info: &SeriesInfo) -> Arc<LabelFacts> {
        let siblings = self.siblings(info).iter();
        let siblings = siblings.filter_map(|id| self.series.get(id.0 as usize)?.as_ref());
        let mut label_facts = siblings.map(|series| &series.label_facts);
        let same = label_facts.find(|label_facts| **label_facts == info.label_facts);
        Arc::clone(same.unwrap_or(&info.label_facts))
    }

    /// Records a series' first sample: from then on its labels count for the row.
    pub(super) fn began(&mut self, id: SeriesId) {
        let Some(Some(series)) = self.series.get(id.0 as usize) else {
            return;
        };
        if let Some(Some(row)) = self.rows.get_mut(series.row.0 as usize)
            && row.is_divided
            && Arc::make_mut(row).combine_labels(&self.series, &self.targets)
        {
            self.generation += 1;
        }
    }
}

impl DeviceRow {
    /// Combines the label contents of those of the row's series that are still read.
    /// Returns whether the row changed.
    pub(super) fn combine_labels(&mut self, series: &[Option<Series>], targets: &Targets) -> bool {
        let siblings = self.series.iter();
        let siblings = siblings.filter_map(|id| series.get(id.0 as usize)?.as_ref());
        let siblings: Vec<&Series> = siblings.collect();
        let Some(first) = siblings.first() else {
            return false;
        };
        let says_else = |other: &&Series| {
            !Arc::ptr_eq(&first.label_facts, &other.label_facts) || first.target != other.target
        };
        self.is_divided = siblings.iter().any(says_else);
        let mut fed_by: Vec<TargetId> = siblings.iter().map(|series| series.target).collect();
        fed_by.sort_unstable();
        fed_by.dedup();
        let mut label_facts: Vec<&Arc<LabelFacts>> = Vec::new();
        for series in still_read(&siblings, targets) {
            if !label_facts
                .iter()
                .any(|known| Arc::ptr_eq(known, &series.label_facts))
            {
                label_facts.push(&series.label_facts);
            }
        }
        // Also true after sharing ended, while older readings, which are shares, are kept.
        let per_process = siblings.iter().any(|series| series.label_facts.per_process);
        let label_facts = combined(&label_facts, per_process);
        let changed = label_facts != self.label_facts || fed_by != self.targets;
        (self.label_facts, self.targets) = (label_facts, fed_by);
        changed
    }
}

/// The combined label contents of several series of a row.
fn combined(all: &[&Arc<LabelFacts>], per_process: bool) -> Arc<LabelFacts> {
    if let [one] = all
        && one.per_process == per_process
    {
        return Arc::clone(one);
    }
    let labels = all.iter().map(|label_facts| &label_facts.labels).min();
    Arc::new(LabelFacts {
        scheme: all
            .iter()
            .filter_map(|label_facts| label_facts.scheme)
            .min(),
        proven: all.iter().any(|label_facts| label_facts.proven),
        suspect: all.iter().any(|label_facts| label_facts.suspect),
        per_process,
        nodes: join_nodes(all),
        cluster: agreed(all.iter().map(|label_facts| label_facts.cluster.as_ref())),
        labels: labels.cloned().unwrap_or_default(),
    })
}

/// The series of a row that are still read. Of one signal and target these are the series
/// of the newest scrape: the others have ended. Scrapes of two targets differ in time, so a
/// series of another target has ended only if it is at least F behind the newest.
fn still_read<'s>(siblings: &'s [&'s Series], targets: &Targets) -> Vec<&'s Series> {
    let mut newest: HashMap<(SignalId, TargetId), Timestamp> = HashMap::new();
    for series in siblings {
        let known = newest.entry((series.signal, series.target));
        let known = known.or_insert(series.newest.at);
        *known = series.newest.at.max(*known);
    }
    let newest_of_row = newest.values().copied().max().unwrap_or_default();
    let is_read = |series: &&&Series| {
        let at = series.newest.at;
        let behind_ms = newest_of_row.millis() - at.millis();
        let in_time = behind_ms == 0 || behind_ms < targets.fresh_ms(series.target);
        in_time && newest.get(&(series.signal, series.target)) == Some(&at)
    };
    siblings.iter().filter(is_read).copied().collect()
}

/// The common value; `None`: the values differ, or one is absent.
fn agreed<'t>(mut values: impl Iterator<Item = Option<&'t Arc<str>>>) -> Option<Arc<str>> {
    let first = values.next()??;
    values
        .all(|value| value == Some(first))
        .then(|| Arc::clone(first))
}

/// Each name once, by the best label that gives it.
fn join_nodes(all: &[&Arc<LabelFacts>]) -> Vec<NodeName> {
    let mut named: Vec<&NodeName> = all
        .iter()
        .flat_map(|label_facts| &label_facts.nodes)
        .collect();
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
    use super::super::StoreSettings;
    use super::*;
    use apimachinery::labels::Labels;

    const UTIL: SignalId = SignalId::GPU_UTIL;
    const MEMORY: SignalId = SignalId::FB_USED;

    fn store() -> Store {
        Store::new(StoreSettings {
            step_ms: 5_000,
            window_ms: 300_000,
            back_ms: 1_200_000,
            scale: None,
            signals: 16,
            intervals: Default::default(),
        })
    }

    fn series(signal: SignalId, nodes: &[(u8, &str)], label: &str) -> SeriesInfo {
        let name = |(rank, name): &(u8, &str)| NodeName {
            rank: *rank,
            name: (*name).into(),
        };
        SeriesInfo {
            signal,
            label_facts: Arc::new(LabelFacts {
                nodes: nodes.iter().map(name).collect(),
                labels: Labels::from_pairs([("label", label)]),
                ..LabelFacts::default()
            }),
            ..crate::targets::tests::series("node:9400", None, "GPU-1")
        }
    }

    /// A series of another exporter.
    fn of(instance: &str, info: SeriesInfo) -> SeriesInfo {
        SeriesInfo {
            instance: instance.into(),
            ..info
        }
    }

    fn row(store: &Store) -> &DeviceRow {
        store.rows().next().unwrap().1
    }

    fn label(store: &Store) -> Option<&str> {
        row(store).label_facts.labels.get("label")
    }

    fn nodes(store: &Store) -> Vec<&str> {
        let nodes = row(store).label_facts.nodes.iter();
        nodes.map(|node| &*node.name).collect()
    }

    /// Takes a sample of each series at this second.
    fn sampled(store: &mut Store, ids: &[SeriesId], secs: i64) -> Timestamp {
        let at = Timestamp::from_secs(1_000_000 + secs);
        for id in ids {
            store.apply(*id, &[Sample { at, value: 1.0 }], at);
        }
        at
    }

    #[test]
    fn the_best_name_of_a_node_comes_first_in_any_order_of_series() {
        let one = series(UTIL, &[(0, "z-node"), (8, "10.0.0.1")], "");
        let other = series(MEMORY, &[(3, "b-node"), (8, "a-node")], "");
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
    fn label_contents_of_an_ended_series_are_removed() {
        let mut store = store();
        let old = store.register(&of("old", series(UTIL, &[(0, "old-node")], "a")));
        let new = store.register(&series(MEMORY, &[(8, "new-node")], "b"));
        sampled(&mut store, &[old], 0);
        let later = sampled(&mut store, &[new], 3_600);
        assert_eq!(
            (label(&store), nodes(&store)),
            (Some("b"), vec!["new-node"])
        );
        assert_eq!(row(&store).targets.len(), 2);
        let before = store.generation();
        assert!(store.sweep(later, |_| false).contains(&old));
        assert_eq!(
            (label(&store), nodes(&store)),
            (Some("b"), vec!["new-node"])
        );
        let after = store.generation();
        assert!(store.sweep(later, |_| false).is_empty());
        assert!(before < after && after == store.generation());
    }

    #[test]
    fn the_newest_series_of_a_target_determines_the_labels() {
        let mut store = store();
        let old = [UTIL, MEMORY].map(|signal| store.register(&series(signal, &[], "b")));
        sampled(&mut store, &old, 0);
        // Of the series that are still read, the smallest label set counts, and a series
        // without a sample does not.
        for (signal, expected) in [(UTIL, "b"), (MEMORY, "c")] {
            let new = store.register(&series(signal, &[], "c"));
            assert_eq!(label(&store), Some("b"));
            sampled(&mut store, &[new], 15);
            assert_eq!(label(&store), Some(expected));
        }
        // The old series is back; the next sweep includes it.
        let later = sampled(&mut store, &old, 30);
        store.sweep(later, |_| false);
        assert_eq!(label(&store), Some("b"));
    }

    #[test]
    fn one_of_two_targets_determines_the_labels_while_both_are_read() {
        let mut store = store();
        let first = store.register(&of("one", series(UTIL, &[], "a")));
        let other = store.register(&of("two", series(UTIL, &[], "b")));
        sampled(&mut store, &[first], 0);
        for (id, secs, expected) in [
            (other, 7, "a"),
            (first, 15, "a"),
            (other, 22, "a"),
            (other, 290, "b"),
        ] {
            let at = sampled(&mut store, &[id], secs);
            store.sweep(at, |_| false);
            assert_eq!(label(&store), Some(expected), "{secs}");
        }
        assert_eq!(row(&store).targets.len(), 2);
    }

    #[test]
    fn series_with_equal_label_contents_share_one_copy() {
        let mut store = store();
        for signal in [UTIL, MEMORY, SignalId::FB_FREE] {
            store.register(&series(signal, &[(0, "node")], "a"));
        }
        let row = Arc::clone(&row(&store).label_facts);
        let mut all = store.series.iter().flatten();
        assert!(all.all(|series| Arc::ptr_eq(&series.label_facts, &row)));
    }
}
