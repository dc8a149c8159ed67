//! Layer 5: exporters and their labels (`gpu_metrics::dcgm`, "Labels", "Lines").

use std::borrow::Cow;

use super::hardware::SimulatedDevice;
use super::machines::Machines;
use super::orchestrator::Holder;
use super::profile::Profile;
use apimachinery::time::Timestamp;

/// An exporter: one per node.
#[derive(Clone, Debug)]
pub struct Exporter {
    /// Index of its node.
    pub node: u32,
    /// Its version.
    pub profile: Profile,
    /// Namespace of its pod.
    pub namespace: &'static str,
    /// Name of its pod.
    pub pod: String,
    /// `address:9400`.
    pub instance: String,
}

/// The labels of a line.
pub(super) type Pairs<'a> = Vec<(Cow<'static, str>, Cow<'a, str>)>;

impl Exporter {
    pub(super) fn new(machines: &Machines, node: u32) -> Self {
        let noise = machines.noise.at(12).at(u64::from(node));
        Self {
            node,
            profile: machines.profile_of(node),
            namespace: "gpu-operator",
            pod: format!("nvidia-dcgm-exporter-{}", noise.suffix(5)),
            instance: format!("{}:9400", machines.nodes[node as usize].address),
        }
    }

    /// The time of the data that it serves at `at`: earlier if a pipeline caches the text.
    pub(super) fn visible(&self, machines: &Machines, at: Timestamp) -> Timestamp {
        match self.profile.has_pipeline() {
            true => machines.grid(self.node, at, 13),
            false => at,
        }
    }
}

/// The labels of a line.
pub(super) fn labels<'a>(
    profile: Profile,
    node: &'a str,
    device: &'a SimulatedDevice,
    holder: Option<&Holder<'a>>,
) -> Pairs<'a> {
    let mut pairs: Pairs<'a> = Vec::with_capacity(20);
    let mut put = |name: &'static str, value: Cow<'a, str>| {
        pairs.push((Cow::Borrowed(name), value));
    };
    put("gpu", device.gpu.to_string().into());
    put("UUID", Cow::Borrowed(&device.uuid));
    if profile >= Profile::V4_1 {
        put("pci_bus_id", Cow::Borrowed(&device.pci_bus_id));
    }
    put("device", Cow::Borrowed(&device.name));
    if profile >= Profile::V3_3 {
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
            if let Some(replica) = holder.replica {
                put("vgpu", replica.to_string().into());
            }
        }
        None if profile == Profile::V2_1 => {
            for name in ["container", "namespace", "pod"] {
                put(name, Cow::Borrowed(""));
            }
        }
        None => {}
    }
    pairs
}
