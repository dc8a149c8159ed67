//! The fleet of a scenario: machines, pods, exporters, and the targets of Prometheus.

use super::exporter::Exporter;
use super::hardware::{Node, SimulatedDevice};
use super::machines::Machines;
use super::orchestrator::Orchestrator;
use super::scenario::Scenario;
use super::scrape::{self, ScrapeTarget};

/// A fleet: maps a time to everything that a cluster's exporters, API server and
/// Prometheus would return.
#[derive(Debug)]
pub struct Fleet {
    pub(super) machines: Machines,
    pub(super) exporters: Vec<Exporter>,
    pub(super) targets: Vec<ScrapeTarget>,
    pub(super) orchestrator: Orchestrator,
}

impl Fleet {
    /// Builds the fleet of a scenario.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let machines = Machines::new(scenario);
        let exporters: Vec<Exporter> = (0..machines.scenario.nodes)
            .map(|index| Exporter::new(&machines, index))
            .collect();
        Self {
            targets: scrape::targets(&machines, &exporters),
            orchestrator: Orchestrator::new(&machines),
            exporters,
            machines,
        }
    }

    /// The scenario it was built from.
    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.machines.scenario
    }

    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.machines.nodes
    }

    /// Its devices, node by node; the index is the device's number.
    #[must_use]
    pub fn devices(&self) -> &[SimulatedDevice] {
        &self.machines.devices
    }

    /// Its exporters, one per node in the order of nodes.
    #[must_use]
    pub fn exporters(&self) -> &[Exporter] {
        &self.exporters
    }
}
