//! Findings about GPUs in series: their fields, the pods that hold them, the jobs that
//! scrape them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::codes::{GM401, GM402, GM406, GM407};
use super::super::names::listed;
use super::super::{Finding, Severity};
use super::{Current, GPUS, PolledSource};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::PrometheusId;
use gpu_metrics::inventory::{InventoryOrigin, Pod};
use gpu_metrics::layout::Attribution;
use gpu_metrics::policy::Shared;
use gpu_metrics::series::Scheme;
use gpu_metrics::signal::SignalId;

/// A utilisation: its name; its signals and fields, the second one for MIG instances; the
/// severity of its absence.
struct Field {
    name: &'static str,
    signals: [SignalId; 2],
    fields: [&'static str; 2],
    severity: Severity,
}

const FIELDS: [Field; 2] = [
    Field {
        name: "memory utilisation",
        signals: [SignalId::MEM_COPY_UTIL, SignalId::DRAM_ACTIVE],
        fields: ["DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE"],
        severity: Severity::Error,
    },
    Field {
        name: "GPU utilisation",
        signals: [SignalId::GPU_UTIL, SignalId::GR_ENGINE_ACTIVE],
        fields: ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"],
        severity: Severity::Warning,
    },
];

/// Milliseconds for which a pod may run before a series must name it.
const GRACE_MS: i64 = 120_000;

/// A scrape job of a Prometheus.
type Job<'s> = (PrometheusId, &'s str);

/// One device, combined from its rows that are reported now.
#[derive(Default)]
struct Device<'s> {
    is_mig: bool,
    /// Whether it is a GPU that has MIG instances.
    has_instances: bool,
    /// Whether a row names a pod other than the exporter's own.
    named: bool,
    holders: BTreeSet<(&'s str, &'s str)>,
    /// The jobs that scrape it.
    jobs: BTreeSet<Job<'s>>,
    /// Whether each of [`FIELDS`] is reported.
    has: [bool; 2],
    /// When each of [`FIELDS`] was last reported.
    had: [Option<Timestamp>; 2],
}

/// Counts over all devices.
#[derive(Default)]
struct Fleet<'s> {
    devices: usize,
    unnamed: usize,
    fields: [Lacking; 2],
    /// Devices with several holders, and the most holders of one.
    shared: usize,
    most_holders: usize,
    /// The number of devices that several jobs scrape, by these jobs.
    twice: BTreeMap<BTreeSet<Job<'s>>, usize>,
}

/// Devices without a field.
#[derive(Clone, Copy, Default)]
struct Lacking {
    expected: usize,
    without: usize,
    mig: usize,
    had: Option<Timestamp>,
}

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let layout = seen.snapshot.layout();
    let devices = (0..).map(|rank| layout.device_rows(rank));
    let mut fleet = Fleet::default();
    for rows in devices.take_while(|rows| !rows.is_empty()) {
        let mut device = None;
        for row in rows.iter().filter_map(|row| seen.current(*row)) {
            device.get_or_insert_with(Device::default).add(seen, row);
        }
        if let Some(device) = device {
            fleet.add(device);
        }
    }
    let mut found: Vec<Finding> = Vec::new();
    for (field, lacking) in FIELDS.iter().zip(fleet.fields) {
        found.extend(without_field(seen, field, lacking));
    }
    found.extend(unnamed(seen, &fleet));
    found.extend(shared(seen, &fleet));
    found.extend(twice(&fleet));
    found
}

impl<'s> Device<'s> {
    fn add(&mut self, seen: PolledSource<'s>, row: Current<'s>) {
        let (facts, frame) = (row.facts, seen.snapshot.frame());
        self.is_mig = facts.is_mig;
        self.has_instances = facts.has_instances;
        let bare = facts.row.label_facts.scheme == Some(Scheme::Bare);
        let is_unheld = bare && facts.attribution == Attribution::Unheld;
        self.named |= facts.row.owner.is_some() && !is_unheld;
        if let (Attribution::Held, Some(owner)) = (facts.attribution, &facts.row.owner) {
            self.holders.insert((&owner.namespace, &owner.pod));
        }
        let targets = facts.row.targets.iter().filter_map(|id| frame.target(*id));
        let heard = targets.filter(|target| !target.silent);
        let sources = heard.filter_map(|target| seen.source_of(target));
        let jobs = sources.map(|source| (source.prometheus, &*source.job));
        self.jobs.extend(jobs);
        let newest = row.target.newest;
        let last = frame.instant_from(newest);
        let is_fresh = |at: Timestamp| newest.millis() - at.millis() < row.target.fresh_ms;
        for (place, field) in FIELDS.iter().enumerate() {
            for signal in field.signals {
                if self.has[place] {
                    break;
                }
                let reading = frame.last_reading(signal, facts.id, last);
                let at = reading.map(|reading| reading.at);
                self.has[place] = at.is_some_and(is_fresh);
                self.had[place] = self.had[place].max(at);
            }
        }
    }
}

impl<'s> Fleet<'s> {
    fn add(&mut self, device: Device<'s>) {
        self.devices += 1;
        self.unnamed += usize::from(!device.named);
        let holders = device.holders.len();
        self.shared += usize::from(holders > 1);
        self.most_holders = holders.max(self.most_holders);
        if device.jobs.len() > 1 {
            *self.twice.entry(device.jobs).or_default() += 1;
        }
        if device.has_instances {
            return;
        }
        for (place, lacking) in self.fields.iter_mut().enumerate() {
            lacking.expected += 1;
            if !device.has[place] {
                lacking.without += 1;
                lacking.mig += usize::from(device.is_mig);
                lacking.had = lacking.had.max(device.had[place]);
            }
        }
    }
}

/// GPUs that are reported without a utilisation. If a query for it fails or was never
/// answered, the series may exist, and there is no finding.
fn without_field(seen: PolledSource<'_>, field: &Field, lacking: Lacking) -> Option<Finding> {
    let frame = seen.snapshot.frame();
    let is_answered =
        |signal: &SignalId| frame.is_answered(*signal) && !seen.failing.contains(signal);
    if lacking.without == 0 || !field.signals.iter().all(is_answered) {
        return None;
    }
    let had = lacking.had.map(|had| had.whole_second().date());
    let since = had.map_or_else(String::new, |had| format!(" since {had}"));
    let [plain, profiling] = field.fields;
    let message = format!(
        "GPUs without {}{since}: {} of {}; neither {plain} nor {profiling} is reported for them",
        field.name, lacking.without, lacking.expected
    );
    let remedy = if lacking.mig == lacking.without {
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

/// GPUs that are held, without a series that names the pod.
fn unnamed(seen: PolledSource<'_>, fleet: &Fleet<'_>) -> Option<Finding> {
    let layout = seen.snapshot.layout();
    let inventory = layout.inventory();
    if inventory.authority != InventoryOrigin::Cluster || fleet.unnamed == 0 {
        return None;
    }
    let now = seen.snapshot.frame().now();
    let is_late = |since: Timestamp| now.millis() - since.millis() > GRACE_MS;
    let holds =
        |pod: &&Pod| pod.gpus > 0 && pod.is_live() && pod.running_since.is_some_and(is_late);
    let holders = inventory.pods.iter().filter(holds).count();
    let unnamed = fleet.unnamed;
    let message = if unnamed == fleet.devices && holders > 0 {
        format!(
            "none of {unnamed} GPUs is reported with the pod that holds it: running pods with GPUs and without values: {holders}"
        )
    } else {
        let held = |row| {
            layout
                .fact(row)
                .is_some_and(|it| it.attribution == Attribution::Held)
        };
        let nodes = layout.table("nodes").map(|(_, table)| &table.objects);
        let lacks = nodes.into_iter().flatten().filter(|node| {
            let reported = !node.members.is_empty() && !node.members.iter().any(|row| held(*row));
            reported && node.unseen.iter().any(|unseen| is_late(unseen.since))
        });
        let mut nodes = lacks.map(|node| &*node.name).peekable();
        nodes.peek()?;
        format!(
            "no GPU of {} is reported with a pod, although pods with GPUs run there: these pods have no values",
            listed(nodes)
        )
    };
    let remedy = "set DCGM_EXPORTER_KUBERNETES=true, mount /var/lib/kubelet/pod-resources, and let the scrape keep the exporter's pod labels";
    Some(Finding::new(&GM402, GPUS, message, remedy))
}

/// Shared GPUs whose whole value each of several pods has.
fn shared(seen: PolledSource<'_>, fleet: &Fleet<'_>) -> Option<Finding> {
    let is_whole = seen.snapshot.policy().shared == Shared::DeviceValue;
    (is_whole && fleet.shared > 0).then(|| {
        let message = format!(
            "GPUs that several pods hold: {}, with at most {} pods each: each pod shows the value of the whole GPU",
            fleet.shared, fleet.most_holders
        );
        let remedy = "set gpu.shared: split to divide it among them, or scale on metrics of the workload, where each GPU counts once";
        Finding::new(&GM406, GPUS, message, remedy)
    })
}

/// GPUs that several jobs scrape.
fn twice(fleet: &Fleet<'_>) -> Vec<Finding> {
    let found = fleet.twice.iter().map(|(jobs, count)| {
        let names = listed(jobs.iter().map(|(_, job)| *job));
        let message = format!(
            "GPUs that all these jobs scrape: {count}: Prometheus stores each sample more than once, and avg_GPU_utilization counts it more than once"
        );
        Finding::new(&GM407, format!("Jobs {names}"), message, "remove one of the scrape jobs")
    });
    found.collect()
}
