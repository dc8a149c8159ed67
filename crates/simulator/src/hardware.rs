//! GPU models, nodes, cards and MIG instances.

use super::random::Noise;
use apimachinery::time::Timestamp;

/// A GPU model and its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// H100 80 GB.
    H100,
    /// A100 80 GB.
    A100,
    /// A30 24 GB.
    A30,
    /// L4 24 GB: no MIG.
    L4,
    /// T4 16 GB: no MIG.
    T4,
}

/// A partition of a card: profile and GPU-instance id, in the order of ids.
pub(super) type Layout = &'static [(&'static str, u32)];

impl Model {
    pub(crate) const ALL: [Self; 5] = [Self::H100, Self::A100, Self::A30, Self::L4, Self::T4];

    /// The value of the label `modelName`; the framebuffer in MiB; the power limit in watts;
    /// the span that NVML's utilisation covers, 1/6 s … 1 s by product (`gpu_metrics::dcgm`,
    /// "Values"), in milliseconds.
    pub(crate) const fn facts(self) -> (&'static str, f64, f64, i64) {
        match self {
            Self::H100 => ("NVIDIA H100 80GB HBM3", 81_559.0, 700.0, 167),
            Self::A100 => ("NVIDIA A100-SXM4-80GB", 81_920.0, 400.0, 167),
            Self::A30 => ("NVIDIA A30", 24_576.0, 165.0, 500),
            Self::L4 => ("NVIDIA L4", 23_034.0, 72.0, 1000),
            Self::T4 => ("Tesla T4", 15_360.0, 70.0, 1000),
        }
    }

    pub(super) const fn layouts(self) -> &'static [Layout] {
        match self {
            Self::H100 | Self::A100 => &[
                &[
                    ("1g.10gb", 7),
                    ("1g.10gb", 8),
                    ("1g.10gb", 9),
                    ("1g.10gb", 11),
                    ("1g.10gb", 12),
                    ("1g.10gb", 13),
                    ("1g.10gb", 14),
                ],
                &[("3g.40gb", 1), ("3g.40gb", 2), ("1g.10gb", 9)],
                &[("3g.40gb", 2), ("2g.20gb", 3), ("2g.20gb", 5)],
            ],
            Self::A30 => &[&[("2g.12gb", 1), ("2g.12gb", 2)]],
            Self::L4 | Self::T4 => &[],
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
    /// From when it exists.
    pub since: Timestamp,
    /// Until when it exists (lost, or partitioned again).
    pub until: Option<Timestamp>,
    pub(super) noise: Noise,
}

impl SimulatedDevice {
    /// Whether the device exists at a time.
    pub(crate) fn exists(&self, at: Timestamp) -> bool {
        self.since <= at && self.until.is_none_or(|until| at < until)
    }

    /// Its share of its card, by compute slices; 1 for a whole card.
    pub(super) fn share(&self) -> f64 {
        let slices = |of: u32| {
            let own = self.mig.map_or("", |mig| mig.profile);
            let own = own.split('g').next().and_then(|n| n.parse::<u32>().ok());
            f64::from(own.unwrap_or(of)) / f64::from(of)
        };
        slices(if self.model == Model::A30 { 4 } else { 7 })
    }
}
