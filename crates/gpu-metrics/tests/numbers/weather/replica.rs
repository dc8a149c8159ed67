//! One replica of the server in virtual time, which calls the pipeline.

use std::sync::Arc;
use std::time::Duration;

use super::build::Built;
use super::cluster::{Cluster, NAMESPACE};
use super::content::{Store, ms};
use super::world::World;
use crate::scene::at;
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::inventory::Inventory;
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

#[derive(Debug)]
pub(super) struct Replica {
    pipeline: Pipeline,
    signals: Vec<SignalId>,
    cluster: Cluster,
    inventory: Arc<Inventory>,
    snapshot: Option<Snapshot>,
    /// When the memory copy utilisation was last read; `None`: never.
    pub(super) read: Option<f64>,
    pub(super) ready: bool,
}

impl Replica {
    /// A replica that starts at `now`.
    pub(super) fn new(world: &World, built: &Built, now: f64) -> Self {
        let mut polled = vec![SignalId::MEM_COPY_UTIL, SignalId::FB_USED];
        if world.has("frozen") {
            polled.extend([SignalId::GPU_UTIL, SignalId::POWER_USAGE]);
        }
        if world.has("profiled") {
            polled.push(SignalId::DRAM_ACTIVE);
        }
        let is_polled = |spec: &SignalSpec| polled.contains(&spec.id);
        let metrics: Vec<_> = metrics::built_in()
            .into_iter()
            .filter(|metric| METRICS.contains(&metric.name.as_str()))
            .collect();
        let policy = Policy {
            window: world.window.map(Duration::from_secs),
            ..Policy::default()
        };
        Self {
            pipeline: Pipeline::new(Settings {
                policy,
                signals: fields::built_in().into_iter().filter(is_polled).collect(),
                metrics,
            }),
            signals: polled,
            cluster: Cluster::new(built, now),
            inventory: Arc::default(),
            snapshot: None,
            read: None,
            ready: false,
        }
    }

    /// Polls once and publishes, as the server does.
    pub(super) fn poll(&mut self, world: &World, built: &Built, store: &Store, now: f64) {
        let time = at(now);
        for (place, signal) in self.signals.clone().into_iter().enumerate() {
            if world.refuses(place, now) || !self.pipeline.is_wanted(signal, time) {
                continue;
            }
            let range = self.pipeline.range(signal, time);
            let range = i64::try_from(range.as_millis()).unwrap();
            let batch = store.answer(signal, ms(now), range);
            self.pipeline.take(&batch, time);
            if signal == SignalId::MEM_COPY_UTIL {
                self.read = Some(now);
            }
        }
        self.inventory = self.cluster.at(built, now);
        self.pipeline.end_round();
        let snapshot = self.pipeline.publish(&self.inventory, time);
        self.snapshot = Some(snapshot);
        self.ready |= self.read.is_some() && self.pipeline.is_ready(time);
    }

    /// The value of a metric of an object in the namespace; `namespaces` is the
    /// namespace itself, `cluster` the whole cluster.
    pub(super) fn value(&self, resource: &str, name: &str, metric: &str, now: f64) -> Option<f64> {
        let snapshot = self.snapshot.as_ref()?;
        let mut metrics = snapshot.metrics().iter();
        let place = metrics.position(|it| it.name == metric)?;
        let value = match resource {
            "cluster" => snapshot.cluster_value(place),
            _ => {
                let (kind, table) = snapshot.layout().table(resource)?;
                let namespace = (resource != "namespaces").then_some(NAMESPACE);
                let index = table.find(namespace, name)?;
                snapshot.values(kind, place)[index]
            }
        };
        let value = value.filter(|value| value.is_fresh(at(now)) && value.value.is_finite());
        value.map(|value| value.value)
    }
}
