//! A fleet in a real Prometheus, and the product reading it over HTTP.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpu_metrics_apiserver::config::PrometheusSettings;
use gpu_metrics_apiserver::core::batch::Batch;
use gpu_metrics_apiserver::core::inventory::Inventory;
use gpu_metrics_apiserver::core::policy::Policy;
use gpu_metrics_apiserver::core::signal::SignalId;
use gpu_metrics_apiserver::core::snapshot::Snapshot;
use gpu_metrics_apiserver::core::time::{Timestamp, millis};
use gpu_metrics_apiserver::dcgm::schemes::ExporterIdentity;
use gpu_metrics_apiserver::dcgm::{fields, metrics};
use gpu_metrics_apiserver::pipeline::{Pipeline, Settings, Shown};
use gpu_metrics_apiserver::simulator::{Fleet, Scenario};
use gpu_metrics_apiserver::source::{Devices, KeyHasher, Prometheus, Query};

use super::promql::{POD_STARTED, owner_label};
use crate::prometheus::{Engine, Storage, blocks};

/// A fleet whose samples a real Prometheus has.
pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    pub(crate) engine: Engine,
    /// From when on there are samples.
    pub(crate) from: Timestamp,
    source: Prometheus,
    /// The longest window that may be asked for.
    pub(crate) longest: Duration,
}

impl Stage {
    /// Samples from a time on until a moment and none after it: a window may
    /// end later than the newest sample.
    pub(crate) async fn new(
        scenario: Scenario,
        (from, at): (Timestamp, Timestamp),
        longest: Duration,
        hasher: KeyHasher,
    ) -> Self {
        let fleet = Fleet::new(scenario);
        let storage = Storage::new();
        let inventory = inventory(&fleet, from, at);
        blocks(&storage, &inventory, |out| fleet.openmetrics(from, at, out));
        let engine = Engine::start(storage, "").await;
        let mut settings = PrometheusSettings::new(engine.url().parse().unwrap());
        settings.timeout = Duration::from_secs(60);
        let source = Prometheus::new(settings, hasher).unwrap();
        Self {
            fleet,
            engine,
            from,
            source,
            longest,
        }
    }

    /// A pipeline that is told the intervals, not the unit.
    pub(crate) fn pipeline(&self, window: Duration) -> Pipeline {
        let scenario = self.fleet.scenario();
        Pipeline::new(Settings {
            policy: Policy {
                window: Some(window),
                max_window: self.longest,
                scrape_interval: Some(scenario.scrape.interval),
                exporter_interval: Some(scenario.exporters.interval),
                ..Policy::default()
            },
            signals: fields::built_in(),
            metrics: metrics::built_in(),
            exporter: ExporterIdentity::default(),
        })
    }

    /// One poll of all signals as of `at`, as the product does it. `turn`
    /// changes the order of the signals.
    pub(crate) async fn poll(&mut self, pipeline: &mut Pipeline, at: Timestamp, turn: usize) {
        loop {
            let mut signals = fields::built_in();
            let count = signals.len();
            signals.rotate_left(turn % count);
            for spec in signals {
                let range = pipeline.range(spec.id, at);
                let query = Query {
                    spec: &spec,
                    devices: Devices::All,
                    at,
                    range,
                };
                let mut batch = [Batch::new(SignalId::MEM_COPY_UTIL, bytes::Bytes::new())];
                let answers = self.source.fetch(&[query], wall_clock(), &mut batch).await;
                for (answer, batch) in answers.into_iter().zip(&batch) {
                    answer.outcome.unwrap();
                    pipeline.take(batch, at);
                }
            }
            if !pipeline.settle(at, Shown::All).refill {
                return;
            }
        }
    }

    /// What is served at `at`.
    pub(crate) fn publish(
        &self,
        pipeline: &mut Pipeline,
        at: Timestamp,
    ) -> (Snapshot, Arc<Inventory>) {
        let inventory = Arc::new(self.fleet.inventory(at));
        (pipeline.publish(&inventory, at), inventory)
    }
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(millis(since))
}

/// The pod watch's word at a moment as series, so that expressions can join
/// with it: start times in seconds, owners as labels. Pods that went are there
/// as last seen.
fn inventory(fleet: &Fleet, from: Timestamp, at: Timestamp) -> String {
    let mut text = format!("# TYPE {POD_STARTED} gauge\n");
    let inventory = fleet.inventory(at);
    let mut named = HashSet::new();
    let pods = inventory.pods.iter().chain(&inventory.departed);
    for pod in pods.filter(|pod| named.insert((&pod.namespace, &pod.name))) {
        let is_listed = inventory.pod(&pod.namespace, &pod.name).is_some();
        let mut labels = format!(
            "live=\"{}\",gpu=\"{}\",ns=\"{}\",po=\"{}\",pn=\"{}\"",
            is_listed && pod.is_live(),
            pod.requests_gpu(),
            pod.namespace,
            pod.name,
            pod.node.as_deref().unwrap_or_default(),
        );
        for owner in &pod.owners {
            let workload = &inventory.workloads[*owner as usize];
            let _ = write!(
                labels,
                ",{}=\"{}\"",
                owner_label(&workload.kind.resource),
                workload.name
            );
        }
        let started = pod.started.unwrap_or(Timestamp::MIN);
        // Instants look back no further than five minutes.
        let mut when = from - Duration::from_secs(120);
        while when <= at {
            let _ = writeln!(text, "{POD_STARTED}{{{labels}}} {started} {when}");
            when = when + Duration::from_secs(120);
        }
    }
    text
}
