//! One replica of the server in virtual time, which calls the pipeline, and what it sees of
//! the API server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::store::{Store, ms};
use super::world::{Pod as Held, World};
use crate::scene::{at, object};
use apimachinery::labels::Labels;
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::inventory::{
    ClusterObject, Inventory, InventoryOrigin, ObjectKind, Pod, PodPhase, Workload,
};
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::{SignalId, SignalSpec};
use gpu_metrics::snapshot::Snapshot;

/// The checked metrics: the mean, the sum, the count.
pub(super) const METRICS: [&str; 3] = [
    "gpu_memory_utilization",
    "gpu_memory_utilization_sum",
    "gpu_held_count",
];

/// The namespace of all pods.
pub(super) const NAMESPACE: &str = "n";

/// How long deleted pods stay in the inventory, in seconds.
const REMEMBERED: f64 = 360.0;

/// The polled signals of a world.
pub(super) fn signals(world: &World) -> Vec<SignalId> {
    let mut signals = vec![SignalId::MEM_COPY_UTIL, SignalId::FB_USED];
    if world.has("frozen") {
        signals.extend([SignalId::GPU_UTIL, SignalId::POWER_USAGE]);
    }
    if world.has("profiled") {
        signals.push(SignalId::DRAM_ACTIVE);
    }
    signals
}

#[derive(Debug)]
pub(super) struct Replica {
    pipeline: Pipeline,
    signals: Vec<SignalId>,
    /// When it began to watch: pods deleted before are unknown to it.
    since: f64,
    /// The pods that live, those that departed, and the nodes.
    exist: [Vec<usize>; 3],
    inventory: Arc<Inventory>,
    snapshot: Option<Snapshot>,
    /// When the memory copy utilisation was last read; `None`: never.
    pub(super) read: Option<f64>,
    pub(super) ready: bool,
}

impl Replica {
    /// A replica that starts at `now`.
    pub(super) fn new(world: &World, now: f64) -> Self {
        let signals = signals(world);
        let is_polled = |spec: &SignalSpec| signals.contains(&spec.id);
        let metrics = metrics::built_in().into_iter();
        let metrics = metrics.filter(|metric| METRICS.contains(&metric.name.as_str()));
        Self {
            pipeline: Pipeline::new(Settings {
                policy: Policy {
                    window: world.window.map(Duration::from_secs),
                    ..Policy::default()
                },
                signals: fields::built_in().into_iter().filter(is_polled).collect(),
                metrics: metrics.collect(),
            }),
            signals,
            since: now,
            exist: Default::default(),
            inventory: Arc::default(),
            snapshot: None,
            read: None,
            ready: false,
        }
    }

    /// Polls once and publishes, as the server does.
    pub(super) fn poll(&mut self, world: &World, store: &Store, now: f64) {
        let time = at(now);
        for (place, signal) in self.signals.iter().enumerate() {
            if world.refuses(place, now) || !self.pipeline.is_wanted(*signal, time) {
                continue;
            }
            let range = self.pipeline.range(*signal, time);
            let range = i64::try_from(range.as_millis()).unwrap();
            let batch = store.answer(*signal, ms(now), range);
            self.pipeline.take(&batch, time);
            if *signal == SignalId::MEM_COPY_UTIL {
                self.read = Some(now);
            }
        }
        self.watch(world, now);
        self.pipeline.end_round();
        self.snapshot = Some(self.pipeline.publish(&self.inventory, time));
        self.ready |= self.read.is_some() && self.pipeline.is_ready(time);
    }

    /// Rebuilds the inventory when something changes.
    fn watch(&mut self, world: &World, now: f64) {
        let pods = |which: &dyn Fn(&Held) -> bool| {
            let pods = 0..world.pods.len();
            pods.filter(|pod| which(&world.pods[*pod])).collect()
        };
        let since = self.since;
        let targets = 0..world.targets.len();
        let exist = [
            pods(&|pod| pod.lives.contains(&now)),
            pods(&|pod| {
                let end = pod.lives.end;
                end > since && (end..end + REMEMBERED).contains(&now)
            }),
            targets
                .filter(|it| now < world.targets[*it].lives.end)
                .collect(),
        ];
        if exist != self.exist {
            self.inventory = Arc::new(inventory(world, &exist, since));
            self.exist = exist;
        }
    }

    /// The value of a metric of an object in the namespace; `namespaces` is the
    /// namespace itself, `cluster` the whole cluster.
    pub(super) fn value(&self, resource: &str, name: &str, metric: &str, now: f64) -> Option<f64> {
        let snapshot = self.snapshot.as_ref()?;
        let mut metrics = snapshot.metrics.iter();
        let place = metrics.position(|it| it.name == metric)?;
        let value = match resource {
            "cluster" => snapshot.cluster_value(place),
            _ => {
                let (kind, table) = snapshot.layout.table(resource)?;
                let namespace = (resource != "namespaces").then_some(NAMESPACE);
                let index = table.find(namespace, name)?;
                snapshot.values(kind, place)[index]
            }
        };
        let value = value.filter(|value| value.is_fresh(at(now)) && value.value.is_finite());
        value.map(|value| value.value)
    }
}

/// What a replica that watches since a time knows.
fn inventory(world: &World, [live, departed, targets]: &[Vec<usize>; 3], since: f64) -> Inventory {
    let names: BTreeSet<&str> = world.pods.iter().map(|pod| pod.workload).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let nodes = targets.iter().map(|target| &*world.targets[*target].node);
    let nodes: BTreeSet<&str> = nodes.collect();
    let pods = |of: &[usize]| {
        let mut pods: Vec<Pod> = of.iter().map(|it| pod(&world.pods[*it], &names)).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods
    };
    let live = pods(live).into_iter();
    Inventory {
        authority: InventoryOrigin::Cluster,
        listed: Some(at(since)),
        pods: live.map(|pod| Pod { ended: None, ..pod }).collect(),
        departed: pods(departed),
        exporter_nodes: nodes.iter().map(|node| Arc::from(*node)).collect(),
        namespaces: vec![object(NAMESPACE)],
        nodes: nodes.iter().map(|name| node(world, name)).collect(),
        workloads: names.iter().flat_map(|name| workloads(name)).collect(),
        ..Inventory::default()
    }
}

/// A node with the labels of NVIDIA's feature discovery. While a GPU has no series, only these
/// labels show that several pods which request a GPU may share it.
fn node(world: &World, name: &str) -> ClusterObject {
    let shared = world.devices.iter().filter(|device| device.shared);
    let mut nodes = shared.map(|device| &world.targets[device.targets[0]].node);
    let label = ("nvidia.com/gpu.sharing-strategy", "time-slicing");
    ClusterObject {
        labels: Labels::from_pairs(nodes.any(|node| node == name).then_some(label)),
        ..object(name)
    }
}

/// The ReplicaSet and the Deployment of one name.
fn workloads(name: &str) -> [Workload; 2] {
    let workload = |kind, name: String| Workload {
        kind,
        namespace: NAMESPACE.into(),
        name: name.into(),
        labels: Labels::default(),
        created: None,
    };
    let set = ObjectKind::new("replicasets.apps", "ReplicaSet", "apps/v1", true);
    let deployment = ObjectKind::new("deployments.apps", "Deployment", "apps/v1", true);
    [
        workload(set, format!("{name}-6d4cf56db6")),
        workload(deployment, name.to_owned()),
    ]
}

/// A pod with its end, which is known after it.
fn pod(held: &Held, workloads: &[&str]) -> Pod {
    let started = at(held.lives.start.max(-86_400.0));
    let place = workloads.iter().position(|name| *name == held.workload);
    let first = u32::try_from(2 * place.unwrap_or(0)).unwrap();
    Pod {
        namespace: NAMESPACE.into(),
        name: held.name.as_str().into(),
        labels: Labels::from_pairs([("app", held.workload)]),
        node: Some(held.node.as_str().into()),
        phase: PodPhase::Running,
        started: Some(started),
        running_since: Some(started),
        ended: Some(at(held.lives.end)),
        gpus: u32::try_from(held.devices.len()).unwrap(),
        owners: vec![first, first + 1],
        ..Pod::default()
    }
}
