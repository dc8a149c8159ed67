//! A pod as it arrives, and its kept fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::objects::{Kept, OwnerRef};
use super::pool::Pool;
use super::settings::WatchSettings;
use super::wire::{Object, timestamp};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::PodPhase;
use gpu_metrics::resources::{self, GpuResources};

/// Part of the names of the exporter's pods and images.
const EXPORTER: &str = "dcgm-exporter";

/// A container name of exporters, but of other programs as well: it identifies a
/// scraped series, and not a pod.
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

#[derive(Debug, Deserialize)]
struct Resources {
    #[serde(default)]
    limits: Option<BTreeMap<String, Amount>>,
    #[serde(default)]
    requests: Option<BTreeMap<String, Amount>>,
}

/// A quantity: a string, or a number where the user wrote one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Text(String),
    Number(f64),
}

impl Amount {
    /// The number of devices. Devices are whole, so any other notation of a quantity
    /// above zero counts as one. `0`, `0.0` and `0Gi` are zero.
    fn devices(&self) -> u32 {
        match self {
            Self::Text(text) => text.parse().unwrap_or_else(|_| {
                u32::from(text.bytes().any(|byte| matches!(byte, b'1'..=b'9')))
            }),
            Self::Number(number) => number.ceil() as u32,
        }
    }
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
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    finished_at: Option<String>,
}

/// A pod's kept fields.
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
    /// The pod's address (empty: none yet) if it looks like an exporter.
    pub(super) exporter: Option<Arc<str>>,
    /// The address of its node, if exporters or GPUs may be there.
    pub(super) host: Option<Arc<str>>,
}

impl KeptPod {
    /// Whether it requests GPUs in any form.
    pub(super) const fn requests_gpu(&self) -> bool {
        self.gpus > 0 || self.uncounted
    }
}

/// More devices than any node has; bounds sums over all pods.
const MOST_DEVICES: u32 = 4096;

/// The devices that containers request.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    devices: u32,
    /// Whether shares of devices are requested.
    share: bool,
}

impl Asked {
    fn plus(self, other: Self) -> Self {
        Self {
            devices: self.devices.saturating_add(other.devices),
            share: self.share || other.share,
        }
    }

    fn at_least(self, other: Self) -> Self {
        Self {
            devices: self.devices.max(other.devices),
            share: self.share || other.share,
        }
    }
}

impl Container {
    /// Limits and requests of such resources are equal, or one is left out.
    fn asked(&self, gpus: &GpuResources) -> Asked {
        let Some(resources) = &self.resources else {
            return Asked::default();
        };
        let of = |amounts: &Option<BTreeMap<String, Amount>>| {
            let mut asked = Asked::default();
            for (name, amount) in amounts.iter().flatten() {
                let devices = amount.devices();
                match gpus.amount(name) {
                    Some(resources::Amount::Devices) => {
                        asked.devices = asked.devices.saturating_add(devices);
                    }
                    Some(resources::Amount::Share) => asked.share |= devices > 0,
                    None => {}
                }
            }
            asked
        };
        of(&resources.limits).at_least(of(&resources.requests))
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
    /// The devices of the whole pod as the scheduler counts them
    /// (`k8s.io/component-helpers/resource`, `PodRequests`): containers and
    /// sidecars run together; before that, each init container runs with the sidecars
    /// listed before it.
    fn asked(&self, gpus: &GpuResources) -> Asked {
        let (mut sidecars, mut most) = (Asked::default(), Asked::default());
        for container in self.init_containers.iter().flatten() {
            let asked = container.asked(gpus);
            most = most.at_least(sidecars.plus(asked));
            if container.is_sidecar() {
                sidecars = sidecars.plus(asked);
            }
        }
        let containers = self.containers.iter().flatten();
        let together = containers.fold(sidecars, |sum, it| sum.plus(it.asked(gpus)));
        together.at_least(most)
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

    fn keep(
        object: Object<PodSpec, PodStatus>,
        pool: &mut Pool,
        settings: &WatchSettings,
    ) -> Option<Self> {
        let mut metadata = object.metadata;
        let (spec, status) = (
            object.spec.unwrap_or_default(),
            object.status.unwrap_or_default(),
        );
        let is_exporter = metadata.name.contains(EXPORTER) || spec.looks_like_exporter(settings);
        let asked = spec.asked(&settings.gpus);
        let claims = spec.resource_claims.iter().flatten().next().is_some();
        let node = spec.node_name.filter(|node| !node.is_empty());
        let uncounted = asked.share || claims;
        let may_hold = is_exporter || asked.devices > 0 || uncounted;
        let host = status.host_ip.as_deref().filter(|_| may_hold);
        Some(Self {
            uid: metadata.uid(),
            controller: OwnerRef::take(&mut metadata, pool),
            terminating: metadata.deletion_timestamp.is_some(),
            labels: pool.labels(&metadata.labels.unwrap_or_default()),
            gpus: asked.devices.min(MOST_DEVICES),
            uncounted,
            host: host.map(|host| pool.text(host)),
            node: node.map(|node| pool.text(&node)),
            phase: phase(status.phase.as_deref()),
            started: timestamp(status.start_time.as_deref()),
            running_since: status.running_since(),
            ended: status.ended(),
            exporter: is_exporter.then(|| status.pod_ip.unwrap_or_default().into()),
        })
    }

    fn uid(&self) -> u64 {
        self.uid
    }
}
