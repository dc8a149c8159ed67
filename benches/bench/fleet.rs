//! A simulated fleet, and Prometheus' answers for it.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::Timestamp;
use bytes::Bytes;
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::{SignalId, SignalSpec};
use prometheus_source::KeyHasher;
use prometheus_source::testing::decode;
use simulator::{Fleet, Scenario};

/// Scrape interval of the fleet.
pub(crate) const SCRAPE: Duration = Duration::from_secs(15);

/// GPUs on one node.
const GPUS_PER_NODE: u32 = 8;

/// A fleet with its pipeline.
pub(crate) struct Bench {
    pub(crate) fleet: Fleet,
    pub(crate) pipeline: Pipeline,
    pub(crate) specs: Vec<SignalSpec>,
    pub(crate) hasher: KeyHasher,
    pub(crate) batch: Batch,
    pub(crate) now: Timestamp,
}

impl Bench {
    pub(crate) fn new(gpus: u32) -> Self {
        Self::of(Scenario::clean(
            gpus.div_ceil(GPUS_PER_NODE),
            GPUS_PER_NODE,
            7,
        ))
    }

    pub(crate) fn of(scenario: Scenario) -> Self {
        let now = scenario.epoch + Duration::from_secs(907);
        let policy = Policy {
            scrape_interval: Some(SCRAPE),
            ..Policy::default()
        };
        let specs = fields::built_in();
        let pipeline = Pipeline::new(Settings {
            policy,
            signals: specs.clone(),
            metrics: metrics::built_in(),
        });
        Self {
            fleet: Fleet::new(scenario),
            pipeline,
            specs,
            hasher: KeyHasher::new(),
            batch: Batch::new(SignalId::MEM_COPY_UTIL),
            now,
        }
    }

    /// Prometheus' answer to the pipeline's next query of a signal.
    pub(crate) fn body(&self, spec: &SignalSpec) -> Bytes {
        let names: Vec<&str> = spec.wire_names.iter().map(String::as_str).collect();
        let range = self.pipeline.range(spec.id, self.now);
        self.fleet.prometheus_json(&names, self.now, range).into()
    }

    /// Decodes and applies one answer. Returns the number of series and of new samples.
    pub(crate) fn take(&mut self, signal: SignalId, body: &Bytes) -> (usize, u64) {
        self.batch.signal = signal;
        decode(body, &self.hasher, &mut self.batch).expect("the body is an answer");
        let report = self.pipeline.take(&self.batch, self.now);
        (self.batch.series_len(), report.accepted)
    }

    /// A whole round, one answer at a time.
    pub(crate) fn round(&mut self) {
        for spec in self.specs.clone() {
            let body = self.body(&spec);
            self.take(spec.id, &body);
        }
        self.pipeline.end_round();
    }

    pub(crate) fn inventory(&self) -> Arc<Inventory> {
        Arc::new(self.fleet.inventory(self.now))
    }
}
