//! Findings about exporters that are silent, frozen or slow, or report GPUs incompletely.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Finding;
use super::super::codes::{GM405, GM408, GM409, GM410, GM411, GM412, GM413};
use super::super::names::listed;
use super::{EXPORTERS, GPUS, PolledSource, of_job, span};
use gpu_metrics::aggregate::{Absence, Missing};
use gpu_metrics::inventory::InventoryOrigin;
use gpu_metrics::layout::RowFacts;
use gpu_metrics::policy::{DeviceValue, Measure, Over, Reducer};
use gpu_metrics::targets::TargetId;
use gpu_metrics::unit::Scale;

/// The default interval of dcgm-exporter (NVIDIA/dcgm-exporter,
/// `DCGM_EXPORTER_INTERVAL`).
const EXPORTER_MS: i64 = 30_000;

/// Milliseconds for which a change of a unit is reported.
const UNIT_CHANGE_MS: i64 = 3_600_000;

/// The most objects of a kind without a sum that are checked: a check reads all their GPUs.
const MOST_OBJECTS: usize = 100;

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut found = rare(seen);
    found.extend(silent(seen));
    found.extend(frozen(seen));
    found.extend(lost(seen));
    found.extend(without_labels(seen));
    found.extend(incomplete(seen));
    found.extend(without_exporter(seen));
    found.extend(units(seen));
    found
}

/// Jobs with a target whose scrape interval is too long: readings between two scrapes are lost.
fn rare(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut slowest: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, target) in seen.heard_targets() {
        let scrape_ms = slowest.entry(seen.job(target)).or_default();
        *scrape_ms = target.scrape_ms.max(*scrape_ms);
    }
    let slowest = slowest.into_iter();
    let rare = slowest.filter(|(_, scrape_ms)| *scrape_ms > EXPORTER_MS);
    let found = rare.map(|(job, scrape_ms)| {
        let message = format!(
            "is scraped every {}, but an exporter has a new reading at least every {}: the readings in between are lost",
            span(scrape_ms),
            span(EXPORTER_MS)
        );
        let remedy = format!("set scrape_interval of the job to {} or less", span(EXPORTER_MS));
        Finding::new(&GM405, of_job(job), message, remedy)
    });
    found.collect()
}

/// Silent exporters of held GPUs: the pods have no values, and sums with too many missing
/// GPUs are not served.
fn silent(seen: PolledSource<'_>) -> Option<Finding> {
    let silent = seen.snapshot.silent();
    let frame = seen.snapshot.frame();
    let instance = |facts: &RowFacts| {
        let is_silent = |id: &TargetId| {
            let target = frame.target(*id);
            target.is_some_and(|target| target.silent)
        };
        let targets = facts.row.targets.iter().copied().filter(is_silent);
        targets.map(|id| seen.instance(id)).collect::<Vec<_>>()
    };
    let instances: BTreeSet<&str> = silent.into_iter().flat_map(instance).collect();
    (!instances.is_empty()).then(|| {
        let message = format!(
            "exporters of GPUs that pods hold are silent ({}): these pods have no values",
            listed(instances)
        );
        let remedy = "check dcgm-exporter there, and check in Prometheus that its target is up";
        Finding::new(&GM408, EXPORTERS, message, remedy)
    })
}

fn frozen(seen: PolledSource<'_>) -> Option<Finding> {
    let frozen = seen
        .targets()
        .filter(|(_, target)| target.frozen_since.is_some());
    let mut instances: Vec<&str> = frozen.map(|(id, _)| seen.instance(id)).collect();
    instances.sort_unstable();
    (!instances.is_empty()).then(|| {
        let message = format!(
            "exporters answer, but none of their readings has changed for ten minutes although a GPU is busy ({}): their devices are treated as unknown",
            listed(instances)
        );
        Finding::new(&GM409, EXPORTERS, message, "restart dcgm-exporter there")
    })
}

/// Held GPUs that exporters no longer report: sums and counts continue without them.
fn lost(seen: PolledSource<'_>) -> Option<Finding> {
    let lost = seen.snapshot.lost();
    let uuids: BTreeSet<&str> = lost.iter().map(|facts| &*facts.row.device.uuid).collect();
    (!uuids.is_empty()).then(|| {
        let message = format!(
            "exporters have not reported {} for longer than a window, although pods hold them and other GPUs of the node are reported: values do not include them",
            listed(uuids)
        );
        Finding::new(&GM410, GPUS, message, "look for Xid errors there (dmesg), and restart dcgm-exporter")
    })
}

/// Held GPUs that exporters report without the labels of their pods: they count as missing.
fn without_labels(seen: PolledSource<'_>) -> Option<Finding> {
    let facts = seen.snapshot.without_labels();
    let nodes = facts
        .iter()
        .map(|facts| facts.node.as_deref().unwrap_or("?"));
    let nodes: BTreeSet<&str> = nodes.collect();
    let uuids: BTreeSet<&str> = facts.iter().map(|facts| &*facts.row.device.uuid).collect();
    (!uuids.is_empty()).then(|| {
        let message = format!(
            "exporters on {} report GPUs that pods hold, but without the labels of these pods for longer than a window ({}): the GPUs are treated as missing",
            listed(nodes),
            listed(uuids)
        );
        let remedy = "restart dcgm-exporter there: it has lost its connection to the kubelet (/var/lib/kubelet/pod-resources); see its log";
        Finding::new(&GM410, GPUS, message, remedy)
    })
}

/// Objects whose sum is not served because too many of their GPUs do not answer.
fn incomplete(seen: PolledSource<'_>) -> Option<Finding> {
    let snapshot = seen.snapshot;
    let sum = Measure::Devices {
        value: DeviceValue::MemoryUtilization,
        reducer: Reducer::Sum,
        over: Over::Active,
    };
    let metric = snapshot.metrics().iter().position(|it| it.measure == sum)?;
    let misses = |absence| {
        let is_silent = |why| matches!(why, Missing::Silent(_) | Missing::Unseen);
        matches!(absence, Absence::Missing { why, .. } if is_silent(why))
    };
    let mut counts = Vec::new();
    for (kind, table) in snapshot.layout().tables().iter().enumerate() {
        if table.kind.resource.as_ref() == "pods" {
            continue;
        }
        let values = table.objects.iter().zip(snapshot.values(kind, metric));
        let mut without = values.filter(|(_, value)| value.is_none());
        let looked = without.by_ref().take(MOST_OBJECTS);
        let missing = looked.filter(|(object, _)| misses(snapshot.absence(object)));
        let count = missing.count();
        let least = without.next().map_or("", |_| " or more");
        if count > 0 {
            counts.push(format!("{count}{least} {}", table.kind.resource));
        }
    }
    let of_cluster = snapshot.cluster_value(metric).is_none();
    if of_cluster && misses(snapshot.absence(snapshot.layout().cluster())) {
        counts.push("the cluster".to_owned());
    }
    (!counts.is_empty()).then(|| {
        let message = format!(
            "no sums and counts of {}: more of their GPUs are silent or were never seen than gpu.minDevices allows",
            counts.join(", ")
        );
        let remedy = "repair the exporters that GM408, GM409 and GM412 name; explain shows which GPUs of an object are missing";
        Finding::new(&GM411, GPUS, message, remedy)
    })
}

/// Exporters whose utilisation changed its unit within an hour.
fn units(seen: PolledSource<'_>) -> Option<Finding> {
    let now = seen.snapshot.frame().now();
    let changes = seen.store.targets().scale_changes();
    let lately = changes.filter(|(.., at)| now.millis() - at.millis() < UNIT_CHANGE_MS);
    let instance = |(id, _, scale, _): (_, _, Scale, _)| {
        format!("{} (now {})", seen.instance(id), scale.range())
    };
    let instances: BTreeSet<String> = lately.map(instance).collect();
    (!instances.is_empty()).then(|| {
        let message = format!(
            "the unit of utilisation changed at {}: readings in the former unit are treated as unknown",
            listed(instances)
        );
        let remedy = "check that the exporters use one unit, and set gpu.percentAsRatio to true or false";
        Finding::new(&GM413, EXPORTERS, message, remedy)
    })
}

/// Nodes that run pods with GPUs and have no exporter: values do not include their GPUs.
fn without_exporter(seen: PolledSource<'_>) -> Option<Finding> {
    let inventory = seen.snapshot.layout().inventory();
    if inventory.authority != InventoryOrigin::Cluster || inventory.exporter_nodes.is_empty() {
        return None;
    }
    let pods = inventory.pods.iter();
    let running = pods.filter(|pod| pod.gpus > 0 && pod.is_live() && pod.running_since.is_some());
    let mut nodes: BTreeSet<&str> = running.filter_map(|pod| pod.node.as_deref()).collect();
    for node in &inventory.exporter_nodes {
        nodes.remove(node.as_ref());
    }
    (!nodes.is_empty()).then(|| {
        let message = format!(
            "no dcgm-exporter runs on {}: values do not include the GPUs there",
            listed(nodes)
        );
        let remedy = "allow its DaemonSet to run there: check nodeSelector and tolerations";
        Finding::new(&GM412, EXPORTERS, message, remedy)
    })
}
