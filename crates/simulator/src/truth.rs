//! The true state beside the data, and the bound of the deviation of samples. With n readings
//! of an on/off load of duty cycle p the standard error is 100 × √(p(1 − p) ÷ n) points: 25
//! for four readings at one half.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::fleet::Fleet;
use super::load::RESOLUTION;
use super::orchestrator::PodRecord;
use super::workloads::DAEMON_SET;
use apimachinery::labels::Labels;
use apimachinery::time::{Timestamp, millis};
use gpu_metrics::inventory::{
    ClusterObject, ExporterPod, Inventory, InventoryOrigin, ObjectKind, Pod, PodPhase, Workload,
};

/// A pod's true mean over a window, and the precision of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrueMean {
    /// Percent: the time average of the mean over the pod's busy devices, with 0 while
    /// none is busy. The formula `mean-of-instants` estimates it.
    pub active: f64,
    /// Standard deviation over time of the mean that `active` averages, in percentage points.
    pub deviation: f64,
    /// Distinct readings per device within the window.
    pub readings: u32,
    /// The pod's devices.
    pub devices: u32,
}

impl TrueMean {
    /// k standard errors of a mean over the readings, percent points: from the true
    /// variance, which for on/off load is p(1 − p).
    /// Readings of all devices at a time count once: bursts are common to them.
    #[must_use]
    pub fn bound(&self, k: f64) -> f64 {
        let readings = f64::from(self.readings.max(1));
        // Integer percent: half a point of rounding.
        k * self.deviation / readings.sqrt() + 0.5
    }
}

impl Fleet {
    /// The true means of a pod over a window, cut at the pod's start and end. `None` when
    /// no such pod holds a device in the window.
    #[must_use]
    pub fn true_mean(
        &self,
        namespace: &str,
        pod: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Option<TrueMean> {
        let alive = |pod: &PodRecord| pod.from < to && pod.until.is_none_or(|until| until > from);
        let mut pods = self.orchestrator.pods.iter();
        // The later of two pods with the same name.
        let record = pods.rfind(|record| {
            record.plan.namespace.as_ref() == namespace
                && record.plan.name.as_ref() == pod
                && alive(record)
        })?;
        let devices: BTreeSet<usize> = record.devices.iter().copied().collect();
        let from = record.from.max(from);
        let to = record.until.map_or(to, |until| until.min(to));
        Some(self.integrate(&devices, from, to))
    }

    fn integrate(&self, devices: &BTreeSet<usize>, from: Timestamp, to: Timestamp) -> TrueMean {
        let (mut sum, mut squares, mut steps) = (0.0, 0.0, 0u32);
        let mut at = from.millis();
        while at < to.millis() || steps == 0 {
            let (mut busy, mut active) = (0.0, 0u32);
            for &device in devices {
                let percent = self.busy(device, at);
                busy += percent;
                active += u32::from(percent > 0.0);
            }
            let mean = busy / f64::from(active.max(1));
            sum += mean;
            squares += mean * mean;
            steps += 1;
            at += RESOLUTION;
        }
        let count = f64::from(steps);
        let active = sum / count;
        let interval = millis(self.machines.scenario.exporters.interval).max(1);
        let readings = (to.millis() - from.millis()).max(0) / interval;
        TrueMean {
            active,
            deviation: (squares / count - active * active).max(0.0).sqrt(),
            readings: u32::try_from(readings).unwrap_or(u32::MAX).max(1),
            devices: u32::try_from(devices.len()).unwrap_or(u32::MAX),
        }
    }

    /// The cluster's objects at a time, as its API server lists them.
    #[must_use]
    pub fn inventory(&self, at: Timestamp) -> Inventory {
        let mut workloads = self.orchestrator.workloads.table.clone();
        let exporters = u32::try_from(workloads.len()).unwrap_or(u32::MAX);
        workloads.push(self.exporter_workload());
        let listed = self.orchestrator.pods.iter();
        let listed = listed.filter(|pod| is_listed(pod, at));
        let mut pods: Vec<_> = listed.map(|pod| self.pod(pod, at)).collect();
        pods.extend(self.exporters.iter().map(|exporter| Pod {
            namespace: exporter.namespace.into(),
            name: exporter.pod.as_str().into(),
            labels: Labels::from_pairs([("app", "nvidia-dcgm-exporter")]),
            node: Some(self.node_name(exporter.node).into()),
            phase: PodPhase::Running,
            started: Some(self.machines.long_ago()),
            running_since: Some(self.machines.long_ago()),
            owners: vec![exporters],
            ..Pod::default()
        }));
        pods.sort_by(|left, right| {
            (&left.namespace, &left.name).cmp(&(&right.namespace, &right.name))
        });
        // In a large fleet a random suffix repeats; a cluster has one pod of a name.
        pods.dedup_by(|later, first| {
            (&later.namespace, &later.name) == (&first.namespace, &first.name)
        });
        let mut namespaces = self.orchestrator.workloads.namespaces.clone();
        namespaces.push("gpu-operator".into());
        namespaces.sort();
        Inventory {
            authority: InventoryOrigin::Cluster,
            departed: self.departed(at),
            exporters: self.exporter_pods(),
            pods,
            namespaces: namespaces.iter().map(|name| self.namespace(name)).collect(),
            nodes: self.node_objects(),
            workloads,
            ..Inventory::default()
        }
    }

    fn node_objects(&self) -> Vec<ClusterObject> {
        let object = |node: &super::hardware::Node| {
            let name: Arc<str> = node.name.as_str().into();
            ClusterObject {
                created: Some(self.machines.long_ago()),
                labels: Labels::from_pairs([
                    ("kubernetes.io/hostname", Arc::clone(&name)),
                    ("nvidia.com/gpu.present", "true".into()),
                    (
                        "nvidia.com/gpu.product",
                        node.model.facts().0.replace(' ', "-").into(),
                    ),
                ]),
                name,
            }
        };
        let mut nodes: Vec<_> = self.machines.nodes.iter().map(object).collect();
        nodes.sort_by(|left, right| left.name.cmp(&right.name));
        nodes
    }

    /// Pods that departed within [`REMEMBERED`]; of several with one name the last comes first.
    fn departed(&self, at: Timestamp) -> Vec<Pod> {
        let records = self.orchestrator.pods.iter();
        let mut departed: Vec<_> = records
            .filter(|pod| pod.from <= at && !is_listed(pod, at))
            .filter_map(|pod| Some((pod.until.max(pod.listed_until)?, pod)))
            .filter(|(gone, _)| at < *gone + REMEMBERED)
            .collect();
        departed.sort_by_key(|(gone, pod)| (&pod.plan.namespace, &pod.plan.name, Reverse(*gone)));
        let pods = departed.into_iter();
        pods.map(|(_, pod)| self.pod(pod, at)).collect()
    }

    fn exporter_pods(&self) -> Vec<ExporterPod> {
        let host = |instance: &str| Some(instance.split_once(':')?.0.into());
        let pods = self.exporters.iter().map(|exporter| ExporterPod {
            namespace: exporter.namespace.into(),
            name: exporter.pod.as_str().into(),
            address: host(&exporter.instance),
            node: Some(self.node_name(exporter.node).into()),
        });
        let mut pods: Vec<_> = pods.collect();
        pods.sort_by(|left, right| {
            (&left.namespace, &left.name).cmp(&(&right.namespace, &right.name))
        });
        pods
    }

    /// A pod in its state at a time.
    fn pod(&self, pod: &PodRecord, at: Timestamp) -> Pod {
        let running = is_running(pod, at);
        Pod {
            namespace: Arc::clone(&pod.plan.namespace),
            name: Arc::clone(&pod.plan.name),
            labels: Labels::from_pairs([("app", Arc::clone(&pod.plan.app))]),
            node: Some(self.node_name(pod.node).into()),
            phase: match running {
                true => PodPhase::Running,
                false => PodPhase::Finished,
            },
            started: Some(pod.from),
            running_since: running.then_some(pod.from),
            gpus: u32::try_from(pod.devices.len()).unwrap_or(u32::MAX),
            owners: pod.plan.owners.clone(),
            ..Pod::default()
        }
    }

    fn node_name(&self, node: u32) -> &str {
        &self.machines.nodes[node as usize].name
    }

    fn exporter_workload(&self) -> Workload {
        let (resource, kind, api_version) = DAEMON_SET;
        Workload {
            created: Some(self.machines.long_ago()),
            kind: ObjectKind::new(resource, kind, api_version, true),
            namespace: "gpu-operator".into(),
            name: "nvidia-dcgm-exporter".into(),
            labels: Labels::from_pairs([("app", "nvidia-dcgm-exporter")]),
        }
    }

    fn namespace(&self, name: &Arc<str>) -> ClusterObject {
        ClusterObject {
            created: Some(self.machines.long_ago()),
            name: Arc::clone(name),
            labels: Labels::from_pairs([("kubernetes.io/metadata.name", Arc::clone(name))]),
        }
    }
}

/// How long a departed pod is kept.
const REMEMBERED: std::time::Duration = std::time::Duration::from_secs(600);

fn is_running(pod: &PodRecord, at: Timestamp) -> bool {
    pod.from <= at && pod.until.is_none_or(|until| at < until)
}

/// Whether the API server lists it: while it runs, and for a time after its end.
fn is_listed(pod: &PodRecord, at: Timestamp) -> bool {
    let gone = pod.listed_until.is_some_and(|until| at >= until);
    pod.from <= at && (is_running(pod, at) || !gone)
}
