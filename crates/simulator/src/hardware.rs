//! GPU models, nodes, cards and MIG instances.

use super::random::Noise;

/// The compute slices of a card.
const SLICES: f64 = 7.0;

/// A GPU model and its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// H100 80 GB.
    H100,
    /// A100 80 GB.
    A100,
}

/// Partitions of a card: profile and GPU-instance id, in the order of ids.
pub(super) const LAYOUTS: [&[(&str, u32)]; 2] = [
    &[("3g.40gb", 1), ("3g.40gb", 2), ("1g.10gb", 9)],
    &[("3g.40gb", 2), ("2g.20gb", 3), ("2g.20gb", 5)],
];

impl Model {
    /// The value of the label `modelName`; the framebuffer in MiB; the power limit in watts.
    pub(crate) const fn facts(self) -> (&'static str, f64, f64) {
        match self {
            Self::H100 => ("NVIDIA H100 80GB HBM3", 81_559.0, 700.0),
            Self::A100 => ("NVIDIA A100-SXM4-80GB", 81_920.0, 400.0),
        }
    }
}

/// A machine with GPUs.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name: `gpu-node-00017`.
    pub name: String,
    /// Its address in the pod network.
    pub address: String,
    /// The model of all its cards.
    pub model: Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigInstance {
    /// `GPU_I_PROFILE`.
    pub profile: &'static str,
    /// `GPU_I_ID`.
    pub id: u32,
}

/// A device that a pod can hold: a whole card or a MIG instance. A card in MIG mode is a
/// device too (its [`SimulatedDevice::parent`] is set), but no pod holds it.
#[derive(Clone, Debug)]
pub struct SimulatedDevice {
    /// Index of its node.
    pub node: u32,
    /// NVML index of the card on its node.
    pub gpu: u32,
    /// The card's UUID; MIG instances carry their parent's.
    pub uuid: String,
    /// The label `device`: `nvidia0`.
    pub name: String,
    /// The card's address on the bus.
    pub pci_bus_id: String,
    pub model: Model,
    pub mig: Option<MigInstance>,
    /// Whether it is a card in MIG mode.
    pub parent: bool,
    /// Replicas of a time-sliced card; 1 for exclusive use.
    pub replicas: u32,
    pub(super) noise: Noise,
}

impl SimulatedDevice {
    /// Its share of its card, by compute slices; 1 for a whole card.
    pub(super) fn share(&self) -> f64 {
        let profile = self.mig.and_then(|mig| mig.profile.split('g').next());
        let slices: Option<f64> = profile.and_then(|slices| slices.parse().ok());
        slices.unwrap_or(SLICES) / SLICES
    }
}
