//! Named scenarios: the demo, everything at once, and those of docs/exporter.md,
//! "Scenarios".

use std::time::Duration;

use super::hardware::Model;
use super::load::LoadClass;
use super::profile::Profile;
use super::scenario::LabelScheme;
use super::scenario::{Scenario, SharingMode};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

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
        scenario.exporters.interval = secs(2);
        scenario.exporters.memory_zero_rate = 0.02;
        scenario.scrape.interval = secs(2);
        scenario.workloads.namespaces = 3;
        scenario.workloads.handover_every = 9;
        scenario
    }

    /// Every defect at once, at rates far above those of real fleets.
    #[must_use]
    pub fn defects(nodes: u32, gpus_per_node: u32, seed: u64) -> Self {
        let mut scenario = Self::clean(nodes, gpus_per_node, seed);
        scenario.hardware.models = Model::ALL.to_vec();
        scenario.hardware.mig_every = 6;
        scenario.hardware.shared_every = 5;
        scenario.hardware.lost_every = 31;
        scenario.workloads.handover_every = 4;
        scenario.workloads.recreated_every = 6;
        scenario.workloads.finished_every = 9;
        scenario.workloads.cron_every = 11;
        let exporters = &mut scenario.exporters;
        exporters.profiles = Profile::ALL.to_vec();
        exporters.memory_zero_rate = 0.10;
        exporters.sentinel_rate = 1e-2;
        exporters.nan_rate = 1e-3;
        exporters.dropout_rate = 0.02;
        exporters.mig_parent_lines = true;
        exporters.silent = Some((13, secs(400)));
        exporters.frozen = Some((17, secs(200)));
        // 8 schemes against 7 versions: every pair occurs within 56 nodes.
        scenario.scrape.schemes = LabelScheme::ALL.to_vec();
        scenario.scrape.failed_rate = 0.01;
        scenario.scrape.replicas = 2;
        scenario
    }

    /// The scenario of that name (`"S2"`; docs/exporter.md, "Scenarios"), on a small
    /// fleet. `None` for those that do not concern data: S14 (faulty HTTP answers), S17
    /// (the reader's clock), S18 (an engine's query delay).
    #[must_use]
    pub fn named(name: &str, seed: u64) -> Option<Self> {
        let mut scenario = Self::clean(2, 8, seed);
        match name {
            "S1" | "S3" | "S8" => scenario.alter_path(name),
            "S4" | "S5" | "S6" | "S7" => scenario.alter_cards(name),
            "S15" => {
                scenario.nodes = 12_500;
            }
            "S2" => scenario.scrape.schemes = vec![LabelScheme::HonorTrue],
            "S9" => scenario.exporters.duplicate_label_every = 2,
            "S10" => {
                scenario.exporters.profiles = vec![Profile::V3_1];
                scenario.exporters.frozen = Some((2, secs(120)));
            }
            "S11" => scenario.exporters.gr_engine_stuck = true,
            "S12" => scenario.scrape.schemes = vec![LabelScheme::RhoaiRatio],
            "S13" => scenario.scrape.schemes = vec![LabelScheme::AzureLowercase],
            "S16" => scenario.exporters.without_memory_copy = true,
            "S19" => scenario.scrape.down = Some((secs(120), secs(420))),
            "S20" => scenario.workloads.across_nodes = true,
            _ => return None,
        }
        Some(scenario)
    }

    fn alter_path(&mut self, name: &str) {
        match name {
            "S1" => {
                self.hardware.shared_every = 8;
                self.workloads.handover_every = 3;
                self.workloads.recreated_every = 4;
                self.exporters.sentinel_rate = 0.01;
                self.exporters.nan_rate = 0.01;
                self.exporters.dropout_rate = 0.02;
                self.scrape.failed_rate = 0.02;
                self.scrape.replicas = 2;
            }
            "S3" => {
                self.nodes = 8;
                self.scrape.schemes = LabelScheme::ALL.to_vec();
                self.scrape.second_job = Some(LabelScheme::EndpointsAnnotation);
            }
            _ => {
                self.scrape.replicas = 2;
                self.scrape.down = Some((secs(120), secs(180)));
            }
        }
    }

    fn alter_cards(&mut self, name: &str) {
        match name {
            "S4" => {
                self.exporters.upgrade = Some((secs(300), Profile::V4_8_3));
                self.exporters.renamed_fields = true;
            }
            "S5" => {
                self.hardware.shared_every = 4;
                self.exporters.sharing = SharingMode::Flapping(secs(120));
            }
            _ => {
                self.hardware.mig_every = 2;
                self.exporters.mig_parent_lines = true;
                if name == "S7" {
                    self.hardware.mig_reconfigured = Some(secs(300));
                }
            }
        }
    }

    /// The same scenario with one load for every pod.
    #[must_use]
    pub const fn under(mut self, load: LoadClass) -> Self {
        self.workloads.load = Some(load);
        self
    }
}
