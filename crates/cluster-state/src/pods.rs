//! The decoded part of a pod, and its kept fields.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::objects::{WatchSettings, timestamp};
use super::pool::Pool;
use super::startup::{running_since, startup};
use super::table::Key;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{ExporterPod, Pod, PodPhase, Startup};
use gpu_metrics::resources::{GpuRequest, GpuResources};

/// The text that names of the exporter's pods, containers and images contain.
const EXPORTER: &str = "dcgm-exporter";

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
pub(super) struct PodStatus {
    phase: Option<String>,
    start_time: Option<Time>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    conditions: Option<Vec<PodCondition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

/// The kept fields of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptPod {
    /// The pod without its owners.
    pub(super) pod: Pod,
    /// The pod as an exporter; `None`: it does not look like one.
    pub(super) exporter: Option<ExporterPod>,
    /// The IP address of its node. `None`: not reported, or the pod is no exporter and
    /// requests no GPU.
    pub(super) host: Option<Arc<str>>,
}

impl KeptPod {
    /// The fields of `spec` and `status`; the caller adds those of the metadata.
    pub(super) fn new(
        (namespace, name): Key,
        spec: &PodSpec,
        status: PodStatus,
        pool: &mut Pool,
        settings: &WatchSettings,
    ) -> Self {
        let requested = spec.requested(&settings.gpus);
        let claims = spec.resource_claims.iter().flatten().next().is_some();
        let node = spec.node_name.as_deref().filter(|node| !node.is_empty());
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let containers = status.container_statuses.as_deref().unwrap_or_default();
        let pod = Pod {
            gpus: requested.devices.min(MOST_DEVICES),
            uncounted: requested.has_share || claims,
            node: node.map(|node| pool.text(node)),
            phase: status.phase(),
            started: status.start_time.as_ref().map(timestamp),
            running_since: running_since(containers),
            startup: match settings.include_starting {
                true => Startup::Unknown,
                false => startup(conditions, containers),
            },
            ended: status.ended(),
            namespace: Arc::clone(&namespace),
            name: Arc::clone(&name),
            labels: Labels::default(),
            terminating: false,
            owners: Vec::new(),
        };
        let is_exporter = name.contains(EXPORTER) || spec.looks_like_exporter();
        let host = status.host_ip.filter(|_| is_exporter || pod.requests_gpu());
        let address = status.pod_ip.filter(|address| !address.is_empty());
        let exporter = is_exporter.then(|| ExporterPod {
            namespace,
            name,
            address: address.map(Into::into),
            node: pod.node.clone(),
        });
        Self {
            pod,
            exporter,
            host: host.map(|host| pool.text(&host)),
        }
    }
}

impl KeptPod {
    /// Takes from its former state when it was first Ready: its condition has the last time.
    pub(super) fn keep_startup(&mut self, former: &Self) {
        if matches!(former.pod.startup, Startup::ReadySince(_))
            && self.pod.startup != Startup::Starting
        {
            self.pod.startup = former.pod.startup;
        }
    }
}

/// More than any node has. The limit prevents an overflow of sums over all pods.
const MOST_DEVICES: u32 = 4096;

/// The limits of a container. Extended resources such as GPUs have limits, and no other requests
/// (`k8s.io/kubernetes`, `pkg/apis/core/validation`, `ValidateContainerResourceRequirements`).
fn limits(container: &Container) -> impl Iterator<Item = (&str, &str)> {
    let all = container.resources.iter();
    let all = all.filter_map(|it| it.limits.as_ref()).flatten();
    all.map(|(name, amount)| (name.as_str(), amount.0.as_str()))
}

impl PodSpec {
    fn requested(&self, gpus: &GpuResources) -> GpuRequest {
        let is_sidecar = |it: &Container| it.restart_policy.as_deref() == Some("Always");
        let init = self.init_containers.iter().flatten();
        let init = init.map(|container| (is_sidecar(container), limits(container)));
        gpus.of_pod(init, self.containers.iter().flatten().map(limits))
    }

    fn looks_like_exporter(&self) -> bool {
        let mut containers = self.containers.iter().flatten();
        containers.any(|container| {
            let image = container.image.as_deref().unwrap_or_default();
            container.name.contains(EXPORTER) || image.contains(EXPORTER)
        })
    }
}

impl PodStatus {
    fn phase(&self) -> PodPhase {
        match self.phase.as_deref() {
            Some("Running") => PodPhase::Running,
            Some("Succeeded" | "Failed") => PodPhase::Finished,
            _ => PodPhase::Pending,
        }
    }

    fn containers(&self) -> impl Iterator<Item = &ContainerState> {
        let statuses = self.container_statuses.iter().flatten();
        statuses.filter_map(|status| status.state.as_ref())
    }

    /// When the last container of a finished pod ended.
    fn ended(&self) -> Option<Timestamp> {
        if self.phase() != PodPhase::Finished {
            return None;
        }
        let ended = self.containers().filter_map(|it| it.terminated.as_ref());
        let ends = ended.filter_map(|ended| ended.finished_at.as_ref());
        ends.map(timestamp).max()
    }
}
