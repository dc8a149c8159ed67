//! Named scenarios: the demo, everything at once, and cases of the tests. Rates are higher
//! than in a real fleet, so that a short test covers every case.
//!
//! | name | content |
//! |---|---|
//! | S1 | sharing, handovers, recreated pods, sentinels, NaN, lost labels and scrapes, two replicas |
//! | S3 | all kinds of labels in one store, and a second job |
//! | S4 | an update of the exporter renames `Hostname` and the fields |
//! | S5 | sharing mode turns on and off; lines of processes |
//! | S7 | MIG instances together with lines of the card; MIG profiles that change |
//! | S12, S13 | ratios instead of percents; labels in lower case |

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
        // 8 schemes against 7 versions: every pair occurs within 56 nodes.
        scenario.scrape.schemes = LabelScheme::ALL.to_vec();
        scenario.scrape.failed_rate = 0.01;
        scenario.scrape.replicas = 2;
        scenario
    }

    /// The scenario of that name, such as `"S1"`, on a small fleet.
    #[must_use]
    pub fn named(name: &str, seed: u64) -> Option<Self> {
        let mut scenario = Self::clean(2, 8, seed);
        let Self {
            nodes,
            hardware,
            workloads,
            exporters,
            scrape,
            ..
        } = &mut scenario;
        match name {
            "S1" => {
                hardware.shared_every = 8;
                workloads.handover_every = 3;
                workloads.recreated_every = 4;
                exporters.sentinel_rate = 0.01;
                exporters.nan_rate = 0.01;
                exporters.dropout_rate = 0.02;
                scrape.failed_rate = 0.02;
                scrape.replicas = 2;
            }
            "S3" => {
                *nodes = 8;
                scrape.schemes = LabelScheme::ALL.to_vec();
                scrape.second_job = Some(LabelScheme::EndpointsAnnotation);
            }
            "S4" => {
                exporters.upgrade = Some((secs(300), Profile::V4_8_3));
                exporters.renamed_fields = true;
            }
            "S5" => {
                hardware.shared_every = 4;
                exporters.sharing = SharingMode::Flapping(secs(120));
            }
            "S7" => {
                hardware.mig_every = 2;
                hardware.mig_reconfigured = Some(secs(300));
                exporters.mig_parent_lines = true;
            }
            "S12" => scrape.schemes = vec![LabelScheme::RhoaiRatio],
            "S13" => scrape.schemes = vec![LabelScheme::AzureLowercase],
            _ => return None,
        }
        Some(scenario)
    }

    /// The same scenario with one load for every pod.
    #[must_use]
    pub const fn under(mut self, load: LoadClass) -> Self {
        self.workloads.load = Some(load);
        self
    }
}
