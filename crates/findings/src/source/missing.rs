//! Findings about GPUs that do not answer: they are silent, frozen, lost, or have no exporter.

use std::collections::{BTreeSet, HashSet};

use super::super::Finding;
use super::super::codes::{GM408, GM409, GM410, GM412};
use super::super::names::listed;
use super::{EXPORTERS, GPUS, PolledSource, place};
use gpu_metrics::inventory::InventoryOrigin;

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    found.extend(silent(seen));
    found.extend(frozen(seen));
    found.extend(lost(seen));
    found.extend(without_labels(seen));
    found.extend(without_exporter(seen));
    found
}

fn uuids<'s>(seen: PolledSource<'s>, devices: &[u32]) -> BTreeSet<&'s str> {
    let all = &seen.snapshot.layout().devices;
    let uuids = devices.iter().map(|it| &*all[*it as usize].device.uuid);
    uuids.collect()
}

/// Exporters without samples, of held GPUs: the pods have no values, and sums with too many
/// missing GPUs are not served. A single silent GPU is lost after a window.
fn silent(seen: PolledSource<'_>) -> Option<Finding> {
    let (snapshot, devices) = (seen.snapshot, &seen.snapshot.layout().devices);
    let exporter = |device: u32| {
        let line = snapshot.newest_line(device)?;
        Some((devices[device as usize].node.as_deref(), place(line)))
    };
    let heard = seen.devices().filter_map(|(device, _)| exporter(device));
    let heard: HashSet<_> = heard.collect();
    let silent = snapshot.silent().into_iter().filter_map(exporter);
    let silent = silent.filter(|exporter| !heard.contains(exporter));
    let places = silent.map(|(node, place)| match node {
        Some(node) if node != place => format!("{place} on {node}"),
        _ => place.to_owned(),
    });
    let places: BTreeSet<String> = places.collect();
    (!places.is_empty()).then(|| {
        let message = format!(
            "exporters of GPUs that pods hold are silent ({}): these pods have no values",
            listed(places)
        );
        let remedy = "check dcgm-exporter there, and check in Prometheus that its target is up";
        Finding::new(&GM408, EXPORTERS, message, remedy)
    })
}

fn frozen(seen: PolledSource<'_>) -> Option<Finding> {
    let frozen = seen
        .devices()
        .filter(|(_, times)| times.frozen_since.is_some());
    let lines = frozen.filter_map(|(device, _)| seen.snapshot.newest_line(device));
    let places: BTreeSet<&str> = lines.map(place).collect();
    (!places.is_empty()).then(|| {
        let message = format!(
            "exporters answer, but no reading of a busy GPU has changed for ten minutes ({}): these GPUs are treated as missing",
            listed(places)
        );
        Finding::new(&GM409, EXPORTERS, message, "restart dcgm-exporter there")
    })
}

/// Held GPUs that exporters no longer report: sums and counts continue without them.
fn lost(seen: PolledSource<'_>) -> Option<Finding> {
    let lost = seen.snapshot.lost();
    (!lost.is_empty()).then(|| {
        let message = format!(
            "exporters have not reported {} for longer than a window, although pods hold them and other GPUs of the node are reported: values do not include them",
            listed(uuids(seen, &lost))
        );
        Finding::new(&GM410, GPUS, message, "look for Xid errors there (dmesg), and restart dcgm-exporter")
    })
}

/// Held GPUs that exporters report without the labels of their pods.
fn without_labels(seen: PolledSource<'_>) -> Option<Finding> {
    let devices = seen.snapshot.without_labels();
    (!devices.is_empty()).then(|| {
        let all = &seen.snapshot.layout().devices;
        let nodes = devices.iter().map(|it| all[*it as usize].node.as_deref());
        let nodes: BTreeSet<&str> = nodes.map(|node| node.unwrap_or("?")).collect();
        let message = format!(
            "exporters on {} report GPUs that pods hold, but without the labels of these pods for longer than a window ({}): values continue while these pods live, for 20 minutes at most",
            listed(nodes),
            listed(uuids(seen, &devices))
        );
        let remedy = "restart dcgm-exporter there: it has lost its connection to the kubelet (/var/lib/kubelet/pod-resources); see its log";
        Finding::new(&GM410, GPUS, message, remedy)
    })
}

/// Nodes that run pods with GPUs and have no exporter: these GPUs are missing.
fn without_exporter(seen: PolledSource<'_>) -> Option<Finding> {
    let layout = seen.snapshot.layout();
    let inventory = layout.inventory();
    if inventory.authority != InventoryOrigin::Cluster || inventory.exporter_nodes.is_empty() {
        return None;
    }
    let running = inventory
        .pods
        .iter()
        .filter(|pod| pod.gpus > 0 && pod.is_live() && pod.running_since.is_some());
    let mut nodes: BTreeSet<&str> = running.filter_map(|pod| pod.node.as_deref()).collect();
    for node in &inventory.exporter_nodes {
        nodes.remove(node.as_ref());
    }
    (!nodes.is_empty()).then(|| {
        let message = format!(
            "no dcgm-exporter runs on {}: the GPUs there are treated as missing",
            listed(nodes)
        );
        let remedy = "allow its DaemonSet to run there: check nodeSelector and tolerations";
        Finding::new(&GM412, EXPORTERS, message, remedy)
    })
}
