//! What is odd about the data: said in the log when it begins and when it is
//! over, and shown among the readiness details as long as it lasts.

use std::collections::BTreeSet;

use crate::core::inventory::{Authority, Inventory};
use crate::core::layout::RowFacts;
use crate::core::snapshot::Snapshot;

/// Names in a sentence; more are counted.
const MOST_NAMES: usize = 5;

/// What ends with each kind of finding, in the order of [`Findings::found`].
const OVER: [&str; 5] = [
    "the series are of one cluster again",
    "no exporter answers with readings that stand still any more",
    "all exporters of GPUs that pods hold are heard again",
    "all GPUs that pods hold are reported again",
    "a dcgm-exporter runs again on every node with pods that hold GPUs",
];

/// Which kinds of findings were said.
#[derive(Debug, Default)]
pub(super) struct Findings {
    said: [bool; OVER.len()],
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
enum Line<'f> {
    Began(&'f str),
    Over(&'static str),
}

impl Findings {
    /// Says what has begun and what is over; everything that is odd now.
    pub(super) fn say(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let found = Self::found(snapshot);
        for line in self.lines(&found) {
            match line {
                Line::Began(finding) => tracing::warn!("{finding}"),
                Line::Over(what) => tracing::info!("{what}"),
            }
        }
        found.into_iter().flatten().collect()
    }

    fn found(snapshot: &Snapshot) -> [Option<String>; OVER.len()] {
        [
            several_clusters(snapshot),
            frozen(snapshot),
            silent(snapshot),
            lost(snapshot),
            without_exporter(snapshot.layout().inventory()),
        ]
    }

    /// One line where a kind begins and one where it ends: names and numbers in
    /// it may change with every poll.
    fn lines<'f>(&mut self, found: &'f [Option<String>; OVER.len()]) -> Vec<Line<'f>> {
        let kinds = found.iter().zip(&mut self.said).zip(OVER);
        let lines = kinds.filter_map(|((finding, said), over)| {
            let was_said = std::mem::replace(said, finding.is_some());
            match finding {
                Some(finding) => (!was_said).then_some(Line::Began(finding)),
                None => was_said.then_some(Line::Over(over)),
            }
        });
        lines.collect()
    }
}

fn several_clusters(snapshot: &Snapshot) -> Option<String> {
    let names = snapshot.layout().several_clusters();
    (!names.is_empty()).then(|| {
        format!(
            "the store holds series of several clusters ({}): set prometheus.matchers to this server's own",
            listed(names.iter().map(AsRef::as_ref))
        )
    })
}

fn frozen(snapshot: &Snapshot) -> Option<String> {
    let targets = snapshot.frame().view().targets.iter();
    let count = targets
        .filter(|target| target.frozen_since.is_some())
        .count();
    (count > 0).then(|| {
        format!(
            "{count} exporters answer, but all their readings have stood still for ten minutes though a GPU is \
             busy: their devices are taken as unknown; restart dcgm-exporter there"
        )
    })
}

/// Exporters of GPUs that pods hold: their pods have no values, and sums of
/// which too much is missing are not served.
fn silent(snapshot: &Snapshot) -> Option<String> {
    let silent = snapshot.silent();
    let instance = |facts: &RowFacts| {
        let labels = &facts.row.labels;
        labels.get_ignore_case("instance").unwrap_or("?").to_owned()
    };
    let instances: BTreeSet<String> = silent.into_iter().map(instance).collect();
    (!instances.is_empty()).then(|| {
        format!(
            "exporters of GPUs that pods hold have fallen silent ({}): these pods have no values; check \
             dcgm-exporter there",
            listed(instances.iter().map(AsRef::as_ref))
        )
    })
}

/// GPUs that pods hold and exporters report no more: sums and counts go on
/// without them.
fn lost(snapshot: &Snapshot) -> Option<String> {
    let lost = snapshot.lost();
    let mut uuids: Vec<&str> = lost.iter().map(|facts| &*facts.row.device.uuid).collect();
    uuids.sort_unstable();
    uuids.dedup();
    (!uuids.is_empty()).then(|| {
        format!(
            "dcgm-exporter reports other GPUs of its node, but for longer than a window not {}, which pods hold: \
             values go on without them; look for Xid errors there",
            listed(uuids.into_iter())
        )
    })
}

/// Nodes that run pods with GPUs and have no exporter: their GPUs are expected
/// by nobody.
fn without_exporter(inventory: &Inventory) -> Option<String> {
    if inventory.authority != Authority::Cluster || inventory.exporter_nodes.is_empty() {
        return None;
    }
    let pods = inventory.pods.iter();
    let running = pods.filter(|pod| pod.gpus > 0 && pod.is_live() && pod.running_since.is_some());
    let nodes: BTreeSet<&str> = running.filter_map(|pod| pod.node.as_deref()).collect();
    let has_exporter = |node: &str| {
        let exporters = &inventory.exporter_nodes;
        exporters
            .binary_search_by(|known| known.as_ref().cmp(node))
            .is_ok()
    };
    let without: Vec<&str> = nodes
        .into_iter()
        .filter(|node| !has_exporter(node))
        .collect();
    (!without.is_empty()).then(|| {
        format!(
            "no dcgm-exporter runs on {}: GPUs there are in no value",
            listed(without.into_iter())
        )
    })
}

fn listed<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let mut text = names.take(MOST_NAMES).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_said_when_it_begins_and_when_it_is_over_not_when_its_words_change() {
        let mut findings = Findings::default();
        let silent = |who: &str| [None, None, Some(who.to_owned()), None, None];
        assert_eq!(findings.lines(&silent("a")), [Line::Began("a")]);
        assert_eq!(findings.lines(&silent("a, b")), []);
        assert_eq!(findings.lines(&silent("b")), []);
        let two = [
            None,
            Some("frozen".to_owned()),
            Some("b".to_owned()),
            None,
            None,
        ];
        assert_eq!(findings.lines(&two), [Line::Began("frozen")]);
        assert_eq!(findings.lines(&silent("b")), [Line::Over(OVER[1])]);
        assert_eq!(findings.lines(&Default::default()), [Line::Over(OVER[2])]);
        assert_eq!(findings.lines(&Default::default()), []);
    }
}
