//! The cluster's objects.

use std::cmp::Reverse;
use std::sync::Arc;

use super::fleet::Fleet;
use super::orchestrator::PodRecord;
use super::workloads::DAEMON_SET;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{
    ClusterObject, ExporterPod, Inventory, InventoryOrigin, ObjectKind, Pod, PodPhase, Workload,
};

impl Fleet {
    /// The cluster's objects at a time, as its API server lists them.
    #[must_use]
    pub fn inventory(&self, at: Timestamp) -> Inventory {
        let mut workloads = self.orchestrator.workloads.table.clone();
        let exporters = u32::try_from(workloads.len()).unwrap_or(u32::MAX);
        workloads.push(self.exporter_workload());
        let running = self.orchestrator.pods.iter();
        let running = running.filter(|pod| is_running(pod, at));
        let mut pods: Vec<_> = running.map(|pod| self.pod(pod, at)).collect();
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
            .filter_map(|pod| Some((pod.until?, pod)))
            .filter(|(gone, _)| *gone <= at && at < *gone + REMEMBERED)
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
