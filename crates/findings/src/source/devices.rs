//! Findings about the series of GPUs: their fields, and the pods that they name.

use std::collections::BTreeSet;

use super::super::codes::{GM401, GM402};
use super::super::names::listed;
use super::super::{Finding, Severity};
use super::{GPUS, PolledSource};
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::InventoryOrigin;
use gpu_metrics::policy::DeviceValue;
use gpu_metrics::signal::SignalId;

/// A utilisation: its name, and the severity of its absence.
struct Field {
    name: &'static str,
    value: DeviceValue,
    severity: Severity,
}

const FIELDS: [Field; 2] = [
    Field {
        name: "memory utilisation",
        value: DeviceValue::MemoryUtilization,
        severity: Severity::Error,
    },
    Field {
        name: "GPU utilisation",
        value: DeviceValue::GpuUtilization,
        severity: Severity::Warning,
    },
];

/// Milliseconds for which a pod may run before a series must name it.
const GRACE_MS: i64 = 120_000;

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let fields = FIELDS.iter().filter_map(|field| without(seen, field));
    fields.chain(unnamed(seen)).collect()
}

/// GPUs that are reported without a utilisation. If a query for it fails or was never
/// answered, the series may exist, and there is no finding.
fn without(seen: PolledSource<'_>, field: &Field) -> Option<Finding> {
    let (snapshot, frame) = (seen.snapshot, &seen.snapshot.frame);
    let is_answered =
        |signal: SignalId| frame.is_answered(signal) && !seen.failing.contains(&signal);
    let (plain, profiling) = field.value.signals();
    let profiling = profiling.unwrap_or(plain);
    if !(is_answered(plain) && is_answered(profiling)) {
        return None;
    }
    let (mut expected, mut without, mut had) = (0, 0, None);
    for (device, times) in seen.devices() {
        let facts = &snapshot.layout.devices[device as usize];
        if facts.has_instances {
            continue;
        }
        expected += 1;
        let read = snapshot.read_at(device, field.value);
        let is_fresh = |at: Timestamp| times.newest.millis() - at.millis() < times.fresh_ms;
        if !read.is_some_and(is_fresh) {
            without += 1;
            had = had.max(read);
        }
    }
    if without == 0 {
        return None;
    }
    let had = had.map(|had: Timestamp| had.whole_second().date());
    let since = had.map_or_else(String::new, |had| format!(" since {had}"));
    let (plain, profiling) = (plain.series_name()?, profiling.series_name()?);
    let message = format!(
        "GPUs without {}{since}: {without} of {expected}; {plain}, on MIG {profiling}, is not reported for them",
        field.name
    );
    let remedy = format!(
        "add {plain} (on MIG {profiling}) to the exporter's list of counters (-f); list the names that exist: count by (__name__) ({{__name__=~\"(?i)dcgm.*util.*\"}})"
    );
    let finding = Finding::new(&GM401, GPUS, message).with_remedy(remedy);
    Some(finding.with_severity(field.severity))
}

/// Running pods with GPUs that no series names, as none names another pod of their Node.
fn unnamed(seen: PolledSource<'_>) -> Option<Finding> {
    let layout = &seen.snapshot.layout;
    if layout.inventory.authority != InventoryOrigin::Cluster || layout.devices.is_empty() {
        return None;
    }
    let (now, nodes) = (seen.snapshot.frame.now, layout.table("nodes"));
    let is_unnamed = |device: u32| layout.claims_of(device).is_empty();
    let lacks_names = |name: &str| {
        let node = nodes.and_then(|(_, nodes)| Some(&nodes.objects[nodes.find(None, name)?]));
        node.is_none_or(|node| node.members.iter().all(|it| is_unnamed(it.device)))
    };
    let pods = layout.pods.iter().filter(|holder| {
        let is_late = |since: Timestamp| now.millis() - since.millis() > GRACE_MS;
        let runs = holder.is_live && holder.pod.running_since.is_some_and(is_late);
        let node = holder.pod.node.as_deref();
        runs && holder.claims.is_empty() && node.is_some_and(lacks_names)
    });
    let nodes = pods.clone().filter_map(|it| it.pod.node.as_deref());
    let nodes: BTreeSet<&str> = nodes.collect();
    let count = pods.count();
    (count > 0).then(|| {
        let message = format!(
            "no GPU of {} is reported with the pod that holds it: running pods with GPUs and without values: {count}",
            listed(nodes)
        );
        Finding::new(&GM402, GPUS, message)
    })
}
