//! Layer 1: the nodes of a scenario and their devices.

use super::hardware::{LAYOUTS, MigInstance, Model, Node, SimulatedDevice};
use super::profile::Profile;
use super::random::Noise;
use super::scenario::{Scenario, dealt, picks};
use apimachinery::time::{Timestamp, millis};

/// The nodes of a scenario and their devices.
#[derive(Debug)]
pub(super) struct Machines {
    pub(super) scenario: Scenario,
    pub(super) noise: Noise,
    pub(super) nodes: Vec<Node>,
    pub(super) devices: Vec<SimulatedDevice>,
    /// Range of each node's devices.
    pub(super) node_devices: Vec<(usize, usize)>,
}

impl Machines {
    pub(super) fn new(scenario: Scenario) -> Self {
        let mut machines = Self {
            noise: Noise::new(scenario.seed),
            nodes: Vec::new(),
            devices: Vec::new(),
            node_devices: Vec::new(),
            scenario,
        };
        for index in 0..machines.scenario.nodes {
            machines.add_node(index);
        }
        machines
    }

    fn add_node(&mut self, index: u32) {
        let model = dealt(&self.scenario.hardware.models, index as usize);
        let model = model.unwrap_or(Model::H100);
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
        let whole = SimulatedDevice {
            node,
            gpu,
            uuid: format!("GPU-{}", noise.uuid()),
            name: format!("nvidia{gpu}"),
            pci_bus_id: format!("00000000:{:02X}:00.0", 0x18 + 0x10 * gpu),
            model,
            mig: None,
            parent: false,
            replicas: 1,
            noise,
        };
        if picks(hardware.mig_every, card) && self.profile_of(node) != Profile::V2_1 {
            return self.add_instances(&whole);
        }
        let shared = picks(hardware.shared_every, card);
        let replicas = if shared { hardware.replicas.max(2) } else { 1 };
        self.devices.push(SimulatedDevice { replicas, ..whole });
    }

    /// Adds the card itself, and the instances of its layout.
    fn add_instances(&mut self, card: &SimulatedDevice) {
        let layout = card.noise.at(9).below(LAYOUTS.len() as u64);
        let layout = LAYOUTS[usize::try_from(layout).unwrap_or(0)];
        self.devices.push(SimulatedDevice {
            parent: true,
            ..card.clone()
        });
        for &(profile, id) in layout {
            self.devices.push(SimulatedDevice {
                mig: Some(MigInstance { profile, id }),
                noise: card.noise.at(100 + u64::from(id)),
                ..card.clone()
            });
        }
    }

    /// The exporter version of a node.
    pub(super) fn profile_of(&self, node: u32) -> Profile {
        let profile = dealt(&self.scenario.exporters.profiles, node as usize);
        profile.unwrap_or(Profile::V4_5_3)
    }

    /// When an event of the timeline happens: between 20 % and 80 % of the
    /// horizon.
    pub(super) fn event_time(&self, noise: Noise) -> Timestamp {
        let share = noise.at(77).between(0.2, 0.8);
        self.scenario.epoch + self.scenario.horizon.mul_f64(share)
    }

    /// The time at which everything older than the timeline was created.
    pub(super) fn long_ago(&self) -> Timestamp {
        self.scenario.epoch - std::time::Duration::from_secs(864_000)
    }

    /// The time of the last reading of a node's sampler.
    pub(super) fn tick(&self, node: u32, at: Timestamp) -> Timestamp {
        self.grid(node, at, 11)
    }

    /// The last time at or before `at` on the node's grid, whose step is the exporter interval.
    pub(super) fn grid(&self, node: u32, at: Timestamp, salt: u64) -> Timestamp {
        let interval = millis(self.scenario.exporters.interval).max(1);
        let noise = self.noise.at(salt).at(u64::from(node));
        let phase = i64::try_from(noise.below(interval.cast_unsigned())).unwrap_or(0);
        let back = (at.millis() - phase).rem_euclid(interval);
        Timestamp::from_millis(at.millis() - back)
    }
}
