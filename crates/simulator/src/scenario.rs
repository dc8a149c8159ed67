//! The settings of a fleet, in one plain struct.

use std::time::Duration;

use super::hardware::Model;
use super::load::LoadClass;
use super::profile::Profile;
use apimachinery::time::Timestamp;

/// All settings of a fleet. Two equal scenarios make fleets that agree byte for byte at
/// every time.
///
/// `…_every: n` picks every n-th of a kind in the order of construction, and none for 0;
/// `…_rate` is a probability per sample or scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Source of all noise.
    pub seed: u64,
    /// Number of nodes; each runs one exporter.
    pub nodes: u32,
    /// Physical GPUs per node.
    pub gpus_per_node: u32,
    /// Time zero of the timeline. Pods without an event run from before it.
    pub epoch: Timestamp,
    /// Hand-overs and re-creations fall between 20 % and 80 % of this span after the epoch.
    pub horizon: Duration,
    /// The cards.
    pub hardware: Hardware,
    /// The workloads that hold them.
    pub workloads: WorkloadLayers,
    /// How they are read and printed.
    pub exporters: ExporterLayers,
    /// How the lines reach the store.
    pub scrape: ScrapePath,
}

/// Layer 1 (docs/architecture.md, "Simulator").
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hardware {
    /// Models, dealt to the nodes in turn.
    pub models: Vec<Model>,
    /// Every n-th card runs in MIG mode, if its exporter's generation supports MIG.
    pub mig_every: u32,
    /// Every n-th card is time-sliced.
    pub shared_every: u32,
    /// Replicas of a time-sliced card.
    pub replicas: u32,
}

/// Layers 2 and 3. A slot is a set of devices that one pod after another holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadLayers {
    pub namespaces: u32,
    /// Sizes of slots, in GPUs, drawn evenly.
    pub gpus_per_pod: Vec<u32>,
    /// Load of all pods; `None`: the kind of workload determines it.
    pub load: Option<LoadClass>,
    /// Every n-th slot is not allocated.
    pub free_every: u32,
    /// Every n-th slot holds GPUs without using them (of several GPUs, the
    /// last one).
    pub idle_every: u32,
    /// Every n-th slot is handed to another pod, without an idle gap.
    pub handover_every: u32,
    /// Every n-th slot is a StatefulSet pod that is created again under its
    /// own name.
    pub recreated_every: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExporterLayers {
    /// Versions, dealt to the nodes in turn.
    pub profiles: Vec<Profile>,
    /// The collection interval I.
    pub interval: Duration,
    /// Whether a MIG card has lines beside those of its instances.
    pub mig_parent_lines: bool,
    /// Rate of MCU = 0 while GPU_UTIL > 0, per reading.
    pub memory_zero_rate: f64,
    /// Rate of leaked sentinels, per reading.
    pub sentinel_rate: f64,
    /// Rate of NaN, per reading; never from versions ≥ 4.8.3, whose renderer
    /// would fail the whole response.
    pub nan_rate: f64,
    /// Rate of scrapes whose lines lack their pod labels, because the kubelet did not
    /// answer (`gpu_metrics::dcgm`, "How a GPU gets its pod").
    pub dropout_rate: f64,
}

/// Layer 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrapePath {
    /// Label schemes, dealt to the nodes in turn.
    pub schemes: Vec<LabelScheme>,
    pub interval: Duration,
    /// Prometheus replicas; more than one adds the label `prometheus_replica`
    /// and gives each its own phases.
    pub replicas: u32,
    /// A second job scrapes the same exporters under this scheme.
    pub second_job: Option<LabelScheme>,
    /// Whether the targets have the label `node`.
    pub node_label: bool,
    /// Rate of scrapes that fail as a whole.
    pub failed_rate: f64,
}

/// 2023-11-14T22:13:20Z, a round number of seconds.
const EPOCH: Timestamp = Timestamp::from_secs(1_700_000_000);

impl Scenario {
    /// No defect at all: whole GPUs, one exporter version with all eight
    /// signals, honor-labels off, I = S = 15 s, pods that stay.
    #[must_use]
    pub fn clean(nodes: u32, gpus_per_node: u32, seed: u64) -> Self {
        Self {
            seed,
            nodes,
            gpus_per_node,
            epoch: EPOCH,
            horizon: Duration::from_secs(600),
            hardware: Hardware {
                models: vec![Model::H100],
                replicas: 4,
                ..Hardware::default()
            },
            workloads: WorkloadLayers {
                namespaces: 4,
                gpus_per_pod: vec![1, 1, 2, 4],
                free_every: 7,
                idle_every: 5,
                ..WorkloadLayers::default()
            },
            exporters: ExporterLayers {
                profiles: vec![Profile::V4_5_3],
                interval: Duration::from_secs(15),
                ..ExporterLayers::default()
            },
            scrape: ScrapePath {
                schemes: vec![LabelScheme::HonorFalse],
                interval: Duration::from_secs(15),
                replicas: 1,
                ..ScrapePath::default()
            },
        }
    }

    /// The same scenario with its time zero moved.
    #[must_use]
    pub const fn starting_at(mut self, epoch: Timestamp) -> Self {
        self.epoch = epoch;
        self
    }
}

/// The element for the `index`-th subject, if elements are assigned in turn.
pub(super) fn dealt<T: Copy>(all: &[T], index: usize) -> Option<T> {
    all.get(index % all.len().max(1)).copied()
}

/// Whether every `every`-th of a kind includes the `index`-th.
pub(super) const fn picks(every: u32, index: u32) -> bool {
    every > 0 && index % every == every - 1
}

/// The form of the labels in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelScheme {
    /// Operator with `honorLabels: false`: `exported_pod`.
    HonorFalse,
    /// Operator with `honorLabels: true`: the exporter's labels win.
    HonorTrue,
    /// Annotation job `kubernetes-service-endpoints`: `exported_namespace`
    /// with bare `pod`.
    EndpointsAnnotation,
    /// Annotation job `kubernetes-pods`: `exported_pod`, bare `container`.
    PodsAnnotation,
    /// Old annotation jobs with `kubernetes_pod_name`: bare labels.
    OldAnnotation,
    /// Google Managed Prometheus: bare labels, `instance` = node and port.
    Gmp,
    /// Azure managed Prometheus: all label names in lower case.
    AzureLowercase,
    /// A collector that rescales percent fields to 0–1, names unchanged.
    RhoaiRatio,
}

impl LabelScheme {
    /// All but [`Self::RhoaiRatio`]: rescaled fields beside others cannot be detected.
    pub(crate) const ALL: [Self; 7] = [
        Self::HonorFalse,
        Self::HonorTrue,
        Self::EndpointsAnnotation,
        Self::PodsAnnotation,
        Self::OldAnnotation,
        Self::Gmp,
        Self::AzureLowercase,
    ];
}
