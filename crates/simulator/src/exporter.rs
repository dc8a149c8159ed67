//! Layer 5: exporters and their labels (`gpu_metrics::dcgm`, "Labels", "Lines").

use std::borrow::Cow;

use super::hardware::SimulatedDevice;
use super::machines::Machines;
use super::orchestrator::Holder;
use super::profile::Profile;
use super::scenario::picks;
use apimachinery::time::Timestamp;

/// An exporter: one per node.
#[derive(Clone, Debug)]
pub struct Exporter {
    /// Index of its node.
    pub node: u32,
    /// Its version at the start of the timeline.
    pub profile: Profile,
    /// Namespace of its pod.
    pub namespace: &'static str,
    /// Name of its pod.
    pub pod: String,
    /// `address:9400`.
    pub instance: String,
    /// When it becomes silent for good.
    pub silent_from: Option<Timestamp>,
}

/// The labels of a line.
pub(super) type Pairs<'a> = Vec<(Cow<'static, str>, Cow<'a, str>)>;

impl Exporter {
    pub(super) fn new(machines: &Machines, node: u32) -> Self {
        let knobs = &machines.scenario.exporters;
        let noise = machines.noise.at(12).at(u64::from(node));
        let silent = knobs.silent.filter(|(every, _)| picks(*every, node));
        Self {
            node,
            profile: machines.profile_of(node),
            namespace: "gpu-operator",
            pod: format!("nvidia-dcgm-exporter-{}", noise.suffix(5)),
            instance: format!("{}:9400", machines.nodes[node as usize].address),
            silent_from: silent.map(|(_, offset)| machines.scenario.offset(offset)),
        }
    }

    /// Its version at a time.
    pub(super) fn profile_at(&self, machines: &Machines, at: Timestamp) -> Profile {
        match machines.scenario.exporters.upgrade {
            Some((offset, profile)) if at >= machines.scenario.offset(offset) => profile,
            _ => self.profile,
        }
    }

    /// Whether it does not answer at a time.
    pub(crate) fn is_silent(&self, at: Timestamp) -> bool {
        self.silent_from.is_some_and(|from| at >= from)
    }

    /// The time of the data that it serves at `at`: earlier if a pipeline caches the text.
    pub(super) fn visible(&self, machines: &Machines, at: Timestamp) -> Timestamp {
        if self.profile_at(machines, at).has_pipeline() {
            machines.grid(self.node, at, 13)
        } else {
            at
        }
    }
}

/// The labels of a line.
pub(super) fn labels<'a>(
    profile: Profile,
    node: &'a str,
    device: &'a SimulatedDevice,
    holder: Option<&Holder<'a>>,
    process: bool,
) -> Pairs<'a> {
    let mut pairs: Pairs<'a> = Vec::with_capacity(20);
    let mut put = |name: &'static str, value: Cow<'a, str>| {
        pairs.push((Cow::Borrowed(name), value));
    };
    put("gpu", device.gpu.to_string().into());
    if profile == Profile::V1Pod {
        put("uuid", Cow::Borrowed(&device.uuid));
        if let Some(holder) = holder {
            put("pod_name", Cow::Borrowed(holder.pod));
            put("pod_namespace", Cow::Borrowed(holder.namespace));
            put("container_name", Cow::Borrowed(holder.container));
        }
        return pairs;
    }
    put("UUID", Cow::Borrowed(&device.uuid));
    if profile >= Profile::V4_1 {
        put("pci_bus_id", Cow::Borrowed(&device.pci_bus_id));
    }
    put("device", Cow::Borrowed(&device.name));
    if profile >= Profile::V3_1 {
        put("modelName", Cow::Borrowed(device.model.facts().0));
        if let Some(mig) = device.mig {
            put("GPU_I_PROFILE", Cow::Borrowed(mig.profile));
            put("GPU_I_ID", mig.id.to_string().into());
        }
        let hostname = match profile {
            Profile::V4_8_3 => "hostname",
            _ => "Hostname",
        };
        put(hostname, Cow::Borrowed(node));
        put("DCGM_FI_DRIVER_VERSION", Cow::Borrowed(profile.driver()));
    }
    match holder {
        Some(holder) => {
            put("container", Cow::Borrowed(holder.container));
            put("namespace", Cow::Borrowed(holder.namespace));
            put("pod", Cow::Borrowed(holder.pod));
            if process {
                put("pod_uid", Cow::Borrowed(holder.uid));
            }
            if let Some(replica) = holder.replica {
                put("vgpu", replica.to_string().into());
            }
        }
        None if profile.has_empty_labels() => {
            for name in ["container", "namespace", "pod"] {
                put(name, Cow::Borrowed(""));
            }
        }
        None => {}
    }
    pairs
}
