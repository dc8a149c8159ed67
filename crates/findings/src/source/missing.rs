//! Findings about GPUs that do not answer: they are silent, frozen, or have no exporter.

use std::collections::{BTreeSet, HashMap};

use super::super::Finding;
use super::super::codes::{GM408, GM409, GM410, GM412};
use super::super::names::listed;
use super::{EXPORTERS, GPUS, PolledSource, place};
use apimachinery::time::Timestamp;
use gpu_metrics::absence::Cause;
use gpu_metrics::inventory::InventoryOrigin;

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    found.extend(silent(seen));
    found.extend(frozen(seen));
    found.extend(without_labels(seen));
    found.extend(without_exporter(seen));
    found
}

fn uuids<'s>(seen: PolledSource<'s>, devices: &[u32]) -> BTreeSet<&'s str> {
    let all = &seen.snapshot.layout.devices;
    let uuids = devices.iter().map(|it| &*all[*it as usize].device.uuid);
    uuids.collect()
}

/// The exporter of a device: its node, and its scraped address.
fn exporter<'s>(seen: PolledSource<'s>, device: u32) -> Option<(Option<&'s str>, &'s str)> {
    let line = seen.snapshot.newest_line(device)?;
    let node = &seen.snapshot.layout.devices[device as usize].node;
    Some((node.as_deref(), place(line)))
}

/// Held GPUs without samples: exporters that report no GPU are silent, and others have not
/// reported that one for longer than a window.
fn silent(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut heard: HashMap<_, Timestamp> = HashMap::new();
    for (device, times) in seen.devices().filter(|(_, times)| !times.is_silent()) {
        if let Some(exporter) = exporter(seen, device) {
            let newest = heard.entry(exporter).or_insert(times.newest);
            *newest = times.newest.max(*newest);
        }
    }
    let (mut lost, mut places) = (Vec::new(), BTreeSet::new());
    for device in seen.snapshot.silent() {
        let Some((node, place)) = exporter(seen, device) else {
            continue;
        };
        let since = seen.snapshot.times(device).map(|times| times.newest);
        match (heard.get(&(node, place)), node) {
            (Some(newest), _) => {
                let is_long = since.is_some_and(|it| it + seen.snapshot.window() < *newest);
                lost.extend(is_long.then_some(device));
            }
            (None, Some(node)) if node != place => {
                places.insert(format!("{place} on {node}"));
            }
            (None, _) => {
                places.insert(place.to_owned());
            }
        }
    }
    let silent = (!places.is_empty()).then(|| {
        let message = format!(
            "exporters of GPUs that pods hold are silent ({}): these pods have no values",
            listed(places)
        );
        let remedy = "check dcgm-exporter there, and check in Prometheus that its target is up";
        Finding::new(&GM408, EXPORTERS, message, remedy)
    });
    let lost = (!lost.is_empty()).then(|| {
        let message = format!(
            "exporters have not reported {} for longer than a window, although pods hold them and other GPUs of the node are reported: these GPUs are missing",
            listed(uuids(seen, &lost))
        );
        Finding::new(&GM410, GPUS, message, "look for Xid errors there (dmesg), and restart dcgm-exporter")
    });
    silent.into_iter().chain(lost).collect()
}

fn frozen(seen: PolledSource<'_>) -> Option<Finding> {
    let frozen = seen
        .devices()
        .filter(|(_, times)| matches!(times.cause, Some(Cause::Frozen(_))));
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

/// Held GPUs that exporters report without the labels of their pods.
fn without_labels(seen: PolledSource<'_>) -> Option<Finding> {
    let devices = seen.snapshot.without_labels();
    (!devices.is_empty()).then(|| {
        let all = &seen.snapshot.layout.devices;
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
    let layout = &seen.snapshot.layout;
    let inventory = &layout.inventory;
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
