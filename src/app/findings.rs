//! What is odd about the data: said once in the log when it begins, and shown
//! among the readiness details as long as it lasts.

use std::collections::BTreeSet;

use crate::core::inventory::{Authority, Inventory};
use crate::core::layout::RowFacts;
use crate::core::snapshot::Snapshot;

/// Names in a sentence; more are counted.
const MOST_NAMES: usize = 5;

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Findings {
    said: BTreeSet<String>,
}

impl Findings {
    /// Says what is new; everything that is odd now.
    pub(super) fn say(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let found = [
            several_clusters(snapshot),
            frozen(snapshot),
            silent(snapshot),
            lost(snapshot),
            without_exporter(snapshot.layout().inventory()),
        ];
        let found: Vec<String> = found.into_iter().flatten().collect();
        for finding in &found {
            if !self.said.contains(finding) {
                tracing::warn!("{finding}");
            }
        }
        if found.is_empty() && !self.said.is_empty() {
            tracing::info!("what was odd about the data is over");
        }
        self.said = found.iter().cloned().collect();
        found
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
