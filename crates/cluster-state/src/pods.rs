//! The decoded part of a pod, and its kept fields.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::objects::{Kept, OwnerRef, WatchSettings};
use super::pool::Pool;
use super::wire::{Object, Pairs, timestamp};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::PodPhase;
use gpu_metrics::resources::{GpuRequest, GpuResources};

/// The text that names of the exporter's pods, containers and images contain.
const EXPORTER: &str = "dcgm-exporter";

/// A container name of exporters, but of other programs as well: it identifies the
/// exporter's series, but not its pod.
const COMMON_NAME: &str = "exporter";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    node_name: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    resource_claims: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: Option<String>,
    image: Option<String>,
    restart_policy: Option<String>,
    resources: Option<Resources>,
}

/// Quantities by resource; kube-apiserver writes each as a string.
#[derive(Debug, Deserialize)]
struct Resources {
    #[serde(default)]
    limits: Option<Pairs>,
    #[serde(default)]
    requests: Option<Pairs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    phase: Option<String>,
    start_time: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    running: Option<ContainerRun>,
    terminated: Option<ContainerRun>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerRun {
    started_at: Option<String>,
    finished_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptPod {
    uid: u64,
    pub(super) labels: Labels,
    pub(super) controller: Option<OwnerRef>,
    pub(super) node: Option<Arc<str>>,
    pub(super) started: Option<Timestamp>,
    pub(super) phase: PodPhase,
    pub(super) terminating: bool,
    pub(super) running_since: Option<Timestamp>,
    pub(super) ended: Option<Timestamp>,
    pub(super) gpus: u32,
    pub(super) uncounted: bool,
    /// The pod's IP address if it looks like an exporter; empty: it has none yet. `None`:
    /// no exporter.
    pub(super) exporter: Option<Arc<str>>,
    /// The IP address of its node. `None`: not reported, or the pod is no exporter and
    /// requests no GPU.
    pub(super) host: Option<Arc<str>>,
}

impl KeptPod {
    pub(super) const fn requests_gpu(&self) -> bool {
        self.gpus > 0 || self.uncounted
    }
}

/// More than any node has. The limit prevents an overflow of sums over all pods.
const MOST_DEVICES: u32 = 4096;

impl Container {
    fn amounts(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let all = self.resources.iter();
        let all = all.flat_map(|it| [&it.limits, &it.requests].into_iter().flatten());
        all.flatten()
            .map(|(name, amount)| (name.as_str(), amount.into()))
    }

    fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    fn looks_like_exporter(&self, settings: &WatchSettings) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let image = self.image.as_deref().unwrap_or_default();
        let mut known = settings.exporter_containers.iter();
        name.contains(EXPORTER)
            || image.contains(EXPORTER)
            || (name != COMMON_NAME && known.any(|known| known == name))
    }
}

impl PodSpec {
    fn requested(&self, gpus: &GpuResources) -> GpuRequest<'_> {
        let init = self.init_containers.iter().flatten();
        let init = init.map(|container| (container.is_sidecar(), container.amounts()));
        let containers = self.containers.iter().flatten();
        gpus.of_pod(init, containers.map(Container::amounts))
    }

    fn looks_like_exporter(&self, settings: &WatchSettings) -> bool {
        let mut containers = self.containers.iter().flatten();
        containers.any(|container| container.looks_like_exporter(settings))
    }
}

impl PodStatus {
    /// When the first container started that still runs.
    fn running_since(&self) -> Option<Timestamp> {
        let statuses = self.container_statuses.iter().flatten();
        let running = statuses.filter_map(|status| status.state.as_ref()?.running.as_ref());
        running
            .filter_map(|running| timestamp(running.started_at.as_deref()))
            .min()
    }

    /// When the last container of a finished pod ended.
    fn ended(&self) -> Option<Timestamp> {
        if phase(self.phase.as_deref()) != PodPhase::Finished {
            return None;
        }
        let statuses = self.container_statuses.iter().flatten();
        let ended = statuses.filter_map(|status| status.state.as_ref()?.terminated.as_ref());
        ended
            .filter_map(|ended| timestamp(ended.finished_at.as_deref()))
            .max()
    }
}

fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        Some("Running") => PodPhase::Running,
        Some("Succeeded" | "Failed") => PodPhase::Finished,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

impl Kept for KeptPod {
    type Spec = PodSpec;
    type Status = PodStatus;

    fn keep(object: Object<PodSpec, PodStatus>, pool: &mut Pool, settings: &WatchSettings) -> Self {
        let mut metadata = object.metadata;
        let (spec, status) = (
            object.spec.unwrap_or_default(),
            object.status.unwrap_or_default(),
        );
        let is_exporter = metadata.name.contains(EXPORTER) || spec.looks_like_exporter(settings);
        let requested = spec.requested(&settings.gpus);
        let (gpus, has_share) = (requested.total(), requested.has_share);
        let claims = spec.resource_claims.iter().flatten().next().is_some();
        let node = spec.node_name.filter(|node| !node.is_empty());
        let uncounted = has_share || claims;
        let may_hold = is_exporter || gpus > 0 || uncounted;
        let host = status.host_ip.as_deref().filter(|_| may_hold);
        Self {
            uid: metadata.uid(),
            controller: OwnerRef::take(&mut metadata, pool),
            terminating: metadata.deletion_timestamp.is_some(),
            labels: pool.labels(&metadata.labels.unwrap_or_default()),
            gpus: gpus.min(MOST_DEVICES),
            uncounted,
            host: host.map(|host| pool.text(host)),
            node: node.map(|node| pool.text(&node)),
            phase: phase(status.phase.as_deref()),
            started: timestamp(status.start_time.as_deref()),
            running_since: status.running_since(),
            ended: status.ended(),
            exporter: is_exporter.then(|| status.pod_ip.unwrap_or_default().into()),
        }
    }

    fn uid(&self) -> u64 {
        self.uid
    }
}
