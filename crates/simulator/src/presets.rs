//! Scenarios of the demonstration and of tests. Rates are higher than in a real fleet, so that
//! a short test covers every case.

use std::time::Duration;

use super::hardware::Model;
use super::load::LoadClass;
use super::profile::Profile;
use super::scenario::{LabelScheme, Scenario};

impl Scenario {
    /// Three nodes of eight GPUs for a demo: the second node's exporter is of the 2.0
    /// generation, the third node has a MIG card and a time-sliced card. One reading
    /// every 2 s.
    #[must_use]
    pub fn demo() -> Self {
        let mut scenario = Self::clean(3, 8, 42);
        scenario.hardware.models = vec![Model::H100, Model::A100, Model::H100];
        scenario.hardware.mig_every = 24;
        scenario.hardware.shared_every = 23;
        scenario.exporters.profiles = vec![Profile::V4_5_3, Profile::V2_1, Profile::V4_8_3];
        scenario.exporters.interval = Duration::from_secs(2);
        scenario.exporters.memory_zero_rate = 0.02;
        scenario.scrape.interval = Duration::from_secs(2);
        // Old exporters do not name the node, and a free GPU has no pod that does.
        scenario.scrape.node_label = true;
        scenario.workloads.namespaces = 3;
        scenario.workloads.handover_every = 9;
        scenario
    }

    /// Every defect at once, at rates far above those of real fleets.
    #[must_use]
    pub fn defects(nodes: u32, gpus_per_node: u32, seed: u64) -> Self {
        let mut scenario = Self::clean(nodes, gpus_per_node, seed);
        scenario.hardware.models = vec![Model::H100, Model::A100];
        scenario.hardware.mig_every = 6;
        scenario.hardware.shared_every = 5;
        scenario.workloads.handover_every = 4;
        scenario.workloads.recreated_every = 6;
        let exporters = &mut scenario.exporters;
        exporters.profiles = Profile::ALL.to_vec();
        exporters.memory_zero_rate = 0.10;
        exporters.sentinel_rate = 1e-2;
        exporters.nan_rate = 1e-3;
        exporters.dropout_rate = 0.02;
        exporters.mig_parent_lines = true;
        scenario.scrape.schemes = LabelScheme::ALL.to_vec();
        scenario.scrape.failed_rate = 0.01;
        scenario.scrape.replicas = 2;
        scenario
    }

    /// MIG instances together with lines of their card.
    #[must_use]
    pub fn instances(seed: u64) -> Self {
        let mut scenario = Self::clean(2, 8, seed);
        scenario.hardware.mig_every = 2;
        scenario.exporters.mig_parent_lines = true;
        scenario
    }

    /// The same scenario with one load for every pod.
    #[must_use]
    pub const fn under(mut self, load: LoadClass) -> Self {
        self.workloads.load = Some(load);
        self
    }
}
