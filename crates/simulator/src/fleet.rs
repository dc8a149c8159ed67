//! Layer 1: nodes, cards, MIG instances.

use super::exporter::{Exporter, Profile};
use super::orchestrator::Orchestrator;
use super::random::Noise;
use super::scenario::{Scenario, picks};
use super::scrape::{self, Target};
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
type Layout = &'static [(&'static str, u32)];

impl Model {
    /// All models.
    pub const ALL: [Self; 5] = [Self::H100, Self::A100, Self::A30, Self::L4, Self::T4];

    /// The value of the label `modelName`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H100 => "NVIDIA H100 80GB HBM3",
            Self::A100 => "NVIDIA A100-SXM4-80GB",
            Self::A30 => "NVIDIA A30",
            Self::L4 => "NVIDIA L4",
            Self::T4 => "Tesla T4",
        }
    }

    /// Framebuffer, MiB.
    pub(super) const fn framebuffer(self) -> f64 {
        match self {
            Self::H100 => 81_559.0,
            Self::A100 => 81_920.0,
            Self::A30 => 24_576.0,
            Self::L4 => 23_034.0,
            Self::T4 => 15_360.0,
        }
    }

    /// Power limit, watts.
    pub(super) const fn watts(self) -> f64 {
        match self {
            Self::H100 => 700.0,
            Self::A100 => 400.0,
            Self::A30 => 165.0,
            Self::L4 => 72.0,
            Self::T4 => 70.0,
        }
    }

    /// The span that NVML's utilisation covers, 1/6 s … 1 s by product
    /// (docs/exporter.md, "Values"), milliseconds.
    pub(super) const fn sample_window(self) -> i64 {
        match self {
            Self::H100 | Self::A100 => 167,
            Self::A30 => 500,
            Self::L4 | Self::T4 => 1000,
        }
    }

    const fn layouts(self) -> &'static [Layout] {
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

/// A MIG instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigInstance {
    /// `GPU_I_PROFILE`.
    pub profile: &'static str,
    /// `GPU_I_ID`.
    pub id: u32,
}

/// What can be held by a pod: a whole card or a MIG instance. A card in MIG
/// mode has a device for itself too (its [`Device::parent`] is set), which no pod
/// holds.
#[derive(Clone, Debug)]
pub struct Device {
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
    /// Its model.
    pub model: Model,
    /// The instance, if it is one.
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

impl Device {
    /// Whether the device exists at a time.
    #[must_use]
    pub fn exists(&self, at: Timestamp) -> bool {
        self.since <= at && self.until.is_none_or(|until| at < until)
    }

    /// The share of its card's memory, by compute slices.
    pub(super) fn share(&self) -> f64 {
        let slices = |of: u32| {
            let own = self.mig.map_or("", |mig| mig.profile);
            let own = own.split('g').next().and_then(|n| n.parse::<u32>().ok());
            f64::from(own.unwrap_or(of)) / f64::from(of)
        };
        slices(if self.model == Model::A30 { 4 } else { 7 })
    }
}

/// A fleet: maps a time to everything that a cluster's exporters, API server and
/// Prometheus would return.
#[derive(Debug)]
pub struct Fleet {
    pub(super) scenario: Scenario,
    pub(super) noise: Noise,
    pub(super) nodes: Vec<Node>,
    pub(super) devices: Vec<Device>,
    /// Range of each node's devices.
    pub(super) node_devices: Vec<(usize, usize)>,
    pub(super) exporters: Vec<Exporter>,
    pub(super) targets: Vec<Target>,
    pub(super) orchestrator: Orchestrator,
}

impl Fleet {
    /// Builds the fleet of a scenario.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let noise = Noise::new(scenario.seed);
        let mut fleet = Self {
            noise,
            nodes: Vec::new(),
            devices: Vec::new(),
            node_devices: Vec::new(),
            exporters: Vec::new(),
            targets: Vec::new(),
            orchestrator: Orchestrator::default(),
            scenario,
        };
        for index in 0..fleet.scenario.nodes {
            fleet.add_node(index);
        }
        fleet.exporters = (0..fleet.scenario.nodes)
            .map(|index| Exporter::new(&fleet, index))
            .collect();
        fleet.targets = scrape::targets(&fleet);
        fleet.orchestrator = Orchestrator::new(&fleet);
        fleet
    }

    /// The scenario it was built from.
    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Its devices, node by node; the index is the device's number.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Its exporters, one per node in the order of nodes.
    #[must_use]
    pub fn exporters(&self) -> &[Exporter] {
        &self.exporters
    }

    fn add_node(&mut self, index: u32) {
        let models = &self.scenario.hardware.models;
        let model = models
            .get(index as usize % models.len().max(1))
            .copied()
            .unwrap_or(Model::H100);
        let high = index / 250;
        self.nodes.push(Node {
            name: format!("gpu-node-{index:05}"),
            address: format!("10.{}.{}.{}", high / 250, high % 250, index % 250 + 1),
            model,
        });
        let first = self.devices.len();
        for gpu in 0..self.scenario.gpus_per_node {
            self.add_card(index, gpu, model);
        }
        self.node_devices.push((first, self.devices.len()));
    }

    fn add_card(&mut self, node: u32, gpu: u32, model: Model) {
        let card = node * self.scenario.gpus_per_node + gpu;
        let noise = self.noise.at(1).at(u64::from(card));
        let hardware = &self.scenario.hardware;
        let lost = picks(hardware.lost_every, card).then(|| self.event_time(noise));
        let whole = Device {
            node,
            gpu,
            uuid: format!("GPU-{}", noise.uuid()),
            name: format!("nvidia{gpu}"),
            pci_bus_id: format!("00000000:{:02X}:00.0", 0x18 + 0x10 * gpu),
            model,
            mig: None,
            parent: false,
            replicas: 1,
            since: Timestamp::MIN,
            until: lost,
            noise,
        };
        let layouts = model.layouts();
        if picks(hardware.mig_every, card) && !layouts.is_empty() && self.knows_mig(node) {
            return self.add_instances(&whole, layouts);
        }
        let shared = picks(hardware.shared_every, card);
        let replicas = if shared { hardware.replicas.max(2) } else { 1 };
        self.devices.push(Device { replicas, ..whole });
    }

    /// Adds the card itself, the instances of its layout, and those of the next layout if
    /// the scenario partitions it again.
    fn add_instances(&mut self, card: &Device, layouts: &'static [Layout]) {
        let first = usize::try_from(card.noise.at(9).below(layouts.len() as u64)).unwrap_or(0);
        let change = self.scenario.hardware.mig_reconfigured;
        let change = change.map(|offset| self.scenario.offset(offset));
        let end = [change, card.until].into_iter().flatten().min();
        let mut spans = vec![(layouts[first], Timestamp::MIN, end)];
        if let Some(change) = change {
            let next = layouts[(first + 1) % layouts.len()];
            spans.push((next, change, card.until));
        }
        self.devices.push(Device {
            parent: true,
            ..card.clone()
        });
        for (layout, since, until) in spans {
            for &(profile, id) in layout {
                self.devices.push(Device {
                    mig: Some(MigInstance { profile, id }),
                    since,
                    until,
                    noise: card.noise.at(100 + u64::from(id)),
                    ..card.clone()
                });
            }
        }
    }

    fn knows_mig(&self, node: u32) -> bool {
        let profile = self.profile_of(node);
        !matches!(profile, Profile::V1Pod | Profile::V2_1)
    }

    /// The exporter version of a node before any upgrade.
    pub(super) fn profile_of(&self, node: u32) -> Profile {
        let profiles = &self.scenario.exporters.profiles;
        profiles
            .get(node as usize % profiles.len().max(1))
            .copied()
            .unwrap_or(Profile::V4_5_3)
    }

    /// When an event of the timeline happens: between 20 % and 80 % of the
    /// horizon.
    pub(super) fn event_time(&self, noise: Noise) -> Timestamp {
        let share = noise.at(77).between(0.2, 0.8);
        self.scenario.offset(self.scenario.horizon.mul_f64(share))
    }
}
