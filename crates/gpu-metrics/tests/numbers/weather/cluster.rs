//! The state of the API server at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::build::{Built, Pod as Held};
use crate::scene::{at, object};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{
    ClusterObject, Inventory, InventoryOrigin, ObjectKind, Pod, PodPhase, Workload,
};

/// The namespace of all pods.
pub(super) const NAMESPACE: &str = "n";

/// How long deleted pods stay in the inventory, in seconds.
const REMEMBERED: f64 = 360.0;

/// The inventory of one replica, rebuilt when something changes.
#[derive(Debug)]
pub(super) struct Cluster {
    /// When the replica began to watch: pods deleted before are unknown to it.
    since: f64,
    /// Times of changes, the next one last.
    changes: Vec<f64>,
    current: Arc<Inventory>,
}

impl Cluster {
    pub(super) fn new(built: &Built, since: f64) -> Self {
        let of_pod = |pod: &Held| [pod.lives.start, pod.lives.end, pod.lives.end + REMEMBERED];
        let of_targets = built.targets.iter().map(|target| target.lives.end);
        let changes = built.pods.iter().flat_map(of_pod).chain(of_targets);
        let mut changes: Vec<f64> = changes.filter(|at| *at > since).collect();
        changes.sort_by(|a, b| b.total_cmp(a));
        Self {
            since,
            changes,
            current: Arc::new(inventory(built, since, since)),
        }
    }

    /// The inventory in force.
    pub(super) fn at(&mut self, built: &Built, now: f64) -> Arc<Inventory> {
        let known = self.changes.len();
        while self.changes.last().is_some_and(|change| *change <= now) {
            self.changes.pop();
        }
        if self.changes.len() < known {
            self.current = Arc::new(inventory(built, self.since, now));
        }
        Arc::clone(&self.current)
    }
}

fn inventory(built: &Built, since: f64, now: f64) -> Inventory {
    let names: BTreeSet<&str> = built.pods.iter().map(|pod| pod.workload).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let nodes: BTreeSet<&str> = built
        .targets
        .iter()
        .filter(|target| now < target.lives.end)
        .map(|target| target.node.as_str())
        .collect();
    let pods = |which: &dyn Fn(&Held) -> bool| {
        let mut pods: Vec<Pod> = built
            .pods
            .iter()
            .filter(|pod| which(pod))
            .map(|held| pod(held, &names))
            .collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods
    };
    let remembered = |pod: &Held| {
        let end = pod.lives.end;
        end > since && (end..end + REMEMBERED).contains(&now)
    };
    Inventory {
        authority: InventoryOrigin::Cluster,
        pods: pods(&|pod| pod.lives.contains(&now)),
        departed: pods(&remembered),
        exporter_nodes: nodes.iter().map(|node| Arc::from(*node)).collect(),
        namespaces: vec![object(NAMESPACE)],
        nodes: nodes
            .iter()
            .map(|name| ClusterObject {
                labels: labels_of_node(built, name),
                ..object(name)
            })
            .collect(),
        workloads: names.iter().flat_map(|name| workloads(name)).collect(),
        exporters: Vec::new(),
        ..Inventory::default()
    }
}

/// A node's labels by NVIDIA's feature discovery. While a GPU has no series, only these
/// labels show that several pods which request a GPU may share it.
fn labels_of_node(built: &Built, node: &str) -> Labels {
    let shared = built.devices.iter().filter(|device| device.shared);
    let mut nodes = shared.map(|device| &built.targets[device.targets[0]].node);
    match nodes.any(|name| name == node) {
        true => Labels::from_pairs([("nvidia.com/gpu.sharing-strategy", "time-slicing")]),
        false => Labels::default(),
    }
}

/// The ReplicaSet and the Deployment of one name.
fn workloads(name: &str) -> [Workload; 2] {
    let workload = |kind, name: String| Workload {
        kind,
        namespace: NAMESPACE.into(),
        name: name.as_str().into(),
        labels: Labels::default(),
        created: None,
    };
    [
        workload(
            ObjectKind::new("replicasets.apps", "ReplicaSet", "apps/v1", true),
            format!("{name}-6d4cf56db6"),
        ),
        workload(
            ObjectKind::new("deployments.apps", "Deployment", "apps/v1", true),
            name.to_owned(),
        ),
    ]
}

fn pod(held: &Held, workloads: &[&str]) -> Pod {
    let started: Option<Timestamp> = (held.lives.start > -1e6).then(|| at(held.lives.start));
    let place = workloads.iter().position(|name| *name == held.workload);
    let first = u32::try_from(2 * place.unwrap_or(0)).unwrap();
    Pod {
        namespace: NAMESPACE.into(),
        name: held.name.as_str().into(),
        labels: Labels::from_pairs([("app", held.workload)]),
        node: Some(held.node.as_str().into()),
        phase: PodPhase::Running,
        terminating: false,
        started: started.or(Some(at(-86_400.0))),
        running_since: started.or(Some(at(-86_400.0))),
        ended: None,
        gpus: u32::try_from(held.devices.len()).unwrap(),
        uncounted: false,
        daemon: false,
        owners: vec![first, first + 1],
    }
}
