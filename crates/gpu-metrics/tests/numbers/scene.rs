//! Scenes: a pipeline, a cluster, and series written as text.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample, SeriesKey};
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::inventory::{
    ClusterObject, Inventory, InventoryOrigin, ObjectKind, Pod, PodPhase, Workload,
};
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

/// Time zero of all scenes: a multiple of every step.
pub(super) const ZERO: Timestamp = Timestamp::from_millis(1_700_000_100_000);

/// Scrape interval of the rows.
pub(super) const SCRAPE: Duration = Duration::from_secs(15);

/// The sentinel "not supported" as Prometheus returns it.
pub(super) const SENTINEL: f64 = 9_223_372_036_854_775_794.0;

pub(super) fn at(secs: f64) -> Timestamp {
    Timestamp::from_millis(ZERO.millis() + (secs * 1000.0) as i64)
}

pub(super) fn sample(secs: f64, value: f64) -> Sample {
    let at = at(secs);
    Sample { at, value }
}

/// Seconds from an instant to the scrape of the rows: each sample counts from the next
/// instant on.
const AFTER: f64 = 5.0;

/// A policy with this window, the interval [`SCRAPE`], and a step of the same length.
pub(super) fn policy(window_secs: u64) -> Policy {
    Policy {
        window: Some(Duration::from_secs(window_secs)),
        max_window: Duration::from_secs(600),
        scrape_interval: Some(SCRAPE),
        step: SCRAPE,
        ..Policy::default()
    }
}

/// A Node or a namespace.
pub(super) fn object(name: &str) -> ClusterObject {
    ClusterObject {
        name: name.into(),
        labels: Labels::default(),
        created: None,
    }
}

pub(super) struct Scene {
    pub(super) pipeline: Pipeline,
    pub(super) inventory: Arc<Inventory>,
    last: Timestamp,
}

pub(super) fn key(text: &str) -> SeriesKey {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    SeriesKey(half(0) << 64 | half(1))
}

/// `UUID=A pod=p` as the text of a JSON object.
pub(super) fn json(labels: &str) -> String {
    let pairs: std::collections::BTreeMap<&str, &str> = labels
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .collect();
    serde_json::to_string(&pairs).unwrap()
}

/// `50 50 · SENT NaN` as samples, one for each scrape; `·` is a scrape without a sample.
pub(super) fn samples(values: &str) -> Vec<Sample> {
    let step = SCRAPE.as_secs_f64();
    let value = |text: &str| match text {
        "SENT" => SENTINEL,
        other => other.parse().unwrap(),
    };
    values
        .split_whitespace()
        .enumerate()
        .filter(|(_, text)| *text != "·")
        .map(|(index, text)| sample(index as f64 * step + AFTER, value(text)))
        .collect()
}

impl Scene {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            pipeline: Pipeline::new(Settings {
                policy,
                signals: fields::built_in(),
                metrics: metrics::built_in(),
            }),
            inventory: Arc::default(),
            last: ZERO,
        }
    }

    /// Adds a series of a signal.
    pub(super) fn signal(mut self, signal: SignalId, labels: &str, values: &str) -> Self {
        self.feed(signal, labels, &samples(values));
        self
    }

    /// Adds a series of the memory copy utilisation.
    pub(super) fn mcu(self, labels: &str, values: &str) -> Self {
        self.signal(SignalId::MEM_COPY_UTIL, labels, values)
    }

    pub(super) fn feed(&mut self, signal: SignalId, labels: &str, samples: &[Sample]) {
        let newest = samples.iter().map(|sample| sample.at).max();
        self.last = self.last.max(newest.unwrap_or(self.last));
        self.feed_at(signal, labels, samples, self.last);
    }

    pub(super) fn feed_at(
        &mut self,
        signal: SignalId,
        labels: &str,
        samples: &[Sample],
        now: Timestamp,
    ) {
        let text = json(labels);
        let mut batch = Batch::new(signal);
        batch.begin_series(key(&format!("{signal:?}{text}")), &text);
        samples.iter().for_each(|sample| batch.push(*sample));
        self.pipeline.take(&batch, now);
    }

    /// The snapshot one second after the last sample.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.snapshot_at(self.last + Duration::from_secs(1))
    }

    pub(super) fn snapshot_at(&mut self, now: Timestamp) -> Snapshot {
        self.pipeline.end_round();
        self.pipeline.publish(&Arc::clone(&self.inventory), now)
    }

    /// Connects a cluster with these pods: `ns/name` with their start.
    pub(super) fn cluster(mut self, pods: &[(&str, Option<f64>)]) -> Self {
        self.inventory = Arc::new(cluster(pods));
        self
    }
}

/// A cluster with these pods on one Node, all of one Deployment: `ns/name` with their start.
pub(super) fn cluster(pods: &[(&str, Option<f64>)]) -> Inventory {
    let mut inventory = Inventory {
        authority: InventoryOrigin::Cluster,
        nodes: vec![object("node-1")],
        workloads: vec![Workload {
            created: None,
            kind: ObjectKind::new("deployments.apps", "Deployment", "apps/v1", true),
            namespace: "n".into(),
            name: "d".into(),
            labels: Labels::from_pairs([("app", "d")]),
        }],
        ..Inventory::default()
    };
    for (name, started) in pods {
        let (namespace, name) = name.split_once('/').unwrap();
        inventory.namespaces.push(object(namespace));
        inventory.pods.push(Pod {
            namespace: namespace.into(),
            name: name.into(),
            labels: Labels::from_pairs([("app", name)]),
            node: Some("node-1".into()),
            phase: PodPhase::Running,
            started: started.map(at),
            gpus: 1,
            owners: vec![0],
            ..Pod::default()
        });
    }
    inventory.namespaces.sort_by(|a, b| a.name.cmp(&b.name));
    inventory.namespaces.dedup_by(|a, b| a.name == b.name);
    let key = |pod: &Pod| (pod.namespace.clone(), pod.name.clone());
    inventory.pods.sort_by_key(key);
    inventory
}
