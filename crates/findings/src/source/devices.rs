//! Findings about the series of GPUs: their fields, the pods that they name, the jobs that
//! scrape them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::codes::{GM401, GM402, GM406, GM407};
use super::super::names::listed;
use super::super::{Finding, Severity};
use super::{GPUS, PolledSource};
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::InventoryOrigin;
use gpu_metrics::policy::{DeviceValue, Shared};
use gpu_metrics::signal::SignalId;

/// A utilisation: its name; its signals and fields, the second one for MIG instances; the
/// severity of its absence.
struct Field {
    name: &'static str,
    value: DeviceValue,
    signals: [SignalId; 2],
    fields: [&'static str; 2],
    severity: Severity,
}

const FIELDS: [Field; 2] = [
    Field {
        name: "memory utilisation",
        value: DeviceValue::MemoryUtilization,
        signals: [SignalId::MEM_COPY_UTIL, SignalId::DRAM_ACTIVE],
        fields: ["DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE"],
        severity: Severity::Error,
    },
    Field {
        name: "GPU utilisation",
        value: DeviceValue::GpuUtilization,
        signals: [SignalId::GPU_UTIL, SignalId::GR_ENGINE_ACTIVE],
        fields: ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"],
        severity: Severity::Warning,
    },
];

/// Milliseconds for which a pod may run before a series must name it.
const GRACE_MS: i64 = 120_000;

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    found.extend(FIELDS.iter().filter_map(|field| without(seen, field)));
    found.extend(unnamed(seen));
    found.extend(shared(seen));
    found.extend(twice(seen));
    found
}

/// GPUs that are reported without a utilisation. If a query for it fails or was never
/// answered, the series may exist, and there is no finding.
fn without(seen: PolledSource<'_>, field: &Field) -> Option<Finding> {
    let (snapshot, frame) = (seen.snapshot, seen.snapshot.frame());
    let is_answered =
        |signal: &SignalId| frame.is_answered(*signal) && !seen.failing.contains(signal);
    if !field.signals.iter().all(is_answered) {
        return None;
    }
    let (mut expected, mut without, mut mig, mut had) = (0, 0, 0, None);
    for (device, times) in seen.devices() {
        let facts = &snapshot.layout().devices[device as usize];
        if facts.has_instances {
            continue;
        }
        expected += 1;
        let read = snapshot.read_at(device, field.value);
        let is_fresh = |at: Timestamp| times.newest.millis() - at.millis() < times.fresh_ms;
        if !read.is_some_and(is_fresh) {
            without += 1;
            mig += usize::from(facts.device.instance.is_some());
            had = had.max(read);
        }
    }
    if without == 0 {
        return None;
    }
    let had = had.map(|had: Timestamp| had.whole_second().date());
    let since = had.map_or_else(String::new, |had| format!(" since {had}"));
    let [plain, profiling] = field.fields;
    let message = format!(
        "GPUs without {}{since}: {without} of {expected}; neither {plain} nor {profiling} is reported for them",
        field.name
    );
    let remedy = if mig == without {
        format!(
            "they are MIG instances, which never have {plain}: add {profiling} to the exporter's list of counters"
        )
    } else {
        format!(
            "add {plain} (on MIG {profiling}) to the exporter's list of counters (-f); list the names that exist: count by (__name__) ({{__name__=~\"(?i)dcgm.*util.*\"}})"
        )
    };
    let finding = Finding::new(&GM401, GPUS, message, remedy);
    Some(finding.with_severity(field.severity))
}

/// Running pods with GPUs that no series names, as none names another pod of their Node.
fn unnamed(seen: PolledSource<'_>) -> Option<Finding> {
    let layout = seen.snapshot.layout();
    if layout.inventory().authority != InventoryOrigin::Cluster || layout.devices.is_empty() {
        return None;
    }
    let (now, nodes) = (seen.snapshot.frame().now, layout.table("nodes"));
    let is_unnamed = |device: u32| layout.claims_of(device).is_empty();
    let none_is_named = layout.claims.is_empty();
    let lacks_names = |name: &str| {
        let node = nodes.and_then(|(_, nodes)| Some(&nodes.objects[nodes.find(None, name)?]));
        node.map_or(none_is_named, |node| {
            node.members.iter().all(|member| is_unnamed(member.device))
        })
    };
    let pods = layout.pods.iter().filter(|pod| {
        let is_late = |since: Timestamp| now.millis() - since.millis() > GRACE_MS;
        let runs = pod.is_live && pod.running_since.is_some_and(is_late);
        runs && pod.claims.is_empty() && pod.node.as_deref().is_some_and(lacks_names)
    });
    let nodes: BTreeSet<&str> = pods.clone().filter_map(|pod| pod.node.as_deref()).collect();
    let count = pods.count();
    (count > 0).then(|| {
        let message = format!(
            "no GPU of {} is reported with the pod that holds it: running pods with GPUs and without values: {count}",
            listed(nodes)
        );
        let remedy = "set DCGM_EXPORTER_KUBERNETES=true, mount /var/lib/kubelet/pod-resources, and let the scrape keep the exporter's pod labels";
        Finding::new(&GM402, GPUS, message, remedy)
    })
}

/// Shared GPUs whose whole value each of several pods has.
fn shared(seen: PolledSource<'_>) -> Option<Finding> {
    let (snapshot, layout) = (seen.snapshot, seen.snapshot.layout());
    if snapshot.policy().shared != Shared::DeviceValue {
        return None;
    }
    let holders = seen.devices().map(|(device, _)| {
        let claims = layout.claims_of(device);
        let current = claims.filter(|claim| snapshot.is_current(*claim, device));
        current.count()
    });
    let shared = holders.filter(|holders| *holders > 1);
    let shared: Vec<usize> = shared.collect();
    shared.iter().max().map(|most| {
        let message = format!(
            "GPUs that several pods hold: {}, with at most {most} pods each: each pod shows the value of the whole GPU",
            shared.len()
        );
        let remedy = "set gpu.shared: split to divide it among them, or scale on metrics of the workload, where each GPU counts once";
        Finding::new(&GM406, GPUS, message, remedy)
    })
}

/// GPUs that several jobs scrape.
fn twice(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut twice: BTreeMap<BTreeSet<&str>, usize> = BTreeMap::new();
    for (device, _) in seen.devices() {
        let lines = seen.lines_of(device);
        let jobs: BTreeSet<&str> = lines.map(|line| &*line.source.job).collect();
        if jobs.len() > 1 {
            *twice.entry(jobs).or_default() += 1;
        }
    }
    let found = twice.into_iter().map(|(jobs, count)| {
        let message = format!(
            "GPUs that all these jobs scrape: {count}: Prometheus stores each sample more than once, and avg_GPU_utilization counts it more than once"
        );
        let object = format!("Jobs {}", listed(jobs));
        Finding::new(&GM407, object, message, "remove one of the scrape jobs")
    });
    found.collect()
}
