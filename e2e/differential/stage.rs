//! A fleet in a real Prometheus, which the server's pipeline reads over HTTP.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::{Timestamp, millis};
use cluster_state::clock;
use gpu_metrics::batch::{Batch, BatchSeries};
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::Policy;
use gpu_metrics::snapshot::Snapshot;
use gpu_metrics::store::PROFILING;
use prometheus_source::settings::PrometheusSettings;
use prometheus_source::{KeyHasher, Prometheus, SeriesQuery};
use simulator::{Fleet, LabelScheme, Scenario};

use super::promql::{Dialect, POD, owner_label};
use crate::prometheus::{Storage, Store, blocks};

/// Milliseconds before a look at which polls are made. In four of them each target has a
/// new sample; usually the last poll brings none.
const POLLS: [u64; 5] = [52_200, 36_200, 20_200, 4_200, 0];

/// How much earlier than a look a window may end, and how much later.
pub(super) const LATE: Duration = Duration::from_secs(120);
pub(super) const AHEAD: Duration = Duration::from_secs(15);

/// A fleet with its samples in a real Prometheus.
pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    pub(crate) engine: Store,
    /// A Prometheus with the readings at each instant as series ([`Dialect::sources`]).
    pub(crate) oracle: Store,
    pub(crate) dialect: Dialect,
    source: Prometheus,
    /// The longest window that may be requested.
    longest: Duration,
}

impl Stage {
    /// The store has samples from `from` to `at` and none later, because a window may end
    /// after the newest sample. `window` is the window that is compared.
    pub(crate) async fn new(
        scenario: Scenario,
        (from, at): (Timestamp, Timestamp),
        (window, longest): (Duration, Duration),
        hasher: KeyHasher,
    ) -> Self {
        let fleet = Fleet::new(scenario);
        let storage = Storage::new();
        let inventory = inventory(&fleet, from, at);
        blocks(&storage, &inventory, |out| fleet.openmetrics(from, at, out));
        let engine = storage.start("").await;
        let dialect = dialect(fleet.scenario());
        let oracle = oracle(&engine, &dialect, (at - window - LATE, at + AHEAD)).await;
        let mut settings = PrometheusSettings::new(engine.url.parse().unwrap());
        settings.timeout = Duration::from_secs(60);
        let source = Prometheus::new(settings, hasher).unwrap();
        Self {
            fleet,
            engine,
            oracle,
            dialect,
            source,
            longest,
        }
    }

    /// A pipeline with the scrape interval and the unit given.
    pub(crate) fn pipeline(&self, window: Duration) -> Pipeline {
        let scenario = self.fleet.scenario();
        Pipeline::new(Settings {
            policy: Policy {
                window: Some(window),
                max_window: self.longest,
                scrape_interval: Some(scenario.scrape.interval),
                percent_as_ratio: self.dialect.percent_as_ratio.then_some(true),
                ..Policy::default()
            },
            signals: fields::built_in(),
            metrics: metrics::built_in(),
        })
    }

    /// One poll of all signals as of `at`, as the server does it; profiling fields are
    /// read of MIG instances only. `turn` changes the order of the signals.
    pub(crate) async fn poll(&mut self, pipeline: &mut Pipeline, at: Timestamp, turn: usize) {
        let mut signals = fields::built_in();
        let count = signals.len();
        signals.rotate_left(turn % count);
        for spec in signals {
            let query = SeriesQuery {
                specs: &[&spec],
                at,
                range: pipeline.range(spec.id, at),
            };
            let mut take = |batch: &Batch| {
                match PROFILING.contains(&spec.id) {
                    true => pipeline.take_part(&of_instances(batch), at),
                    false => pipeline.take_part(batch, at),
                };
            };
            let fetched = self.source.fetch(&query, clock::now(), &mut take).await;
            fetched.unwrap();
            pipeline.answered(spec.id, at);
        }
    }

    /// Polls at the usual intervals, the last at `at`.
    pub(crate) async fn polls(&mut self, pipeline: &mut Pipeline, at: Timestamp, turn: usize) {
        for before in POLLS {
            let at = at - Duration::from_millis(before);
            self.poll(pipeline, at, turn).await;
            self.publish(pipeline, at);
        }
    }

    /// The snapshot that is served at `at`.
    pub(crate) fn publish(&self, pipeline: &mut Pipeline, at: Timestamp) -> Snapshot {
        let inventory = Arc::new(self.fleet.inventory(at));
        pipeline.end_round();
        pipeline.publish(&inventory, at)
    }
}

fn dialect(scenario: &Scenario) -> Dialect {
    let schemes = &scenario.scrape.schemes;
    let is_ratio = |scheme: &LabelScheme| *scheme == LabelScheme::RhoaiRatio;
    Dialect {
        step_ms: millis(Policy::default().step),
        fresh_ms: (3 * millis(scenario.scrape.interval)).max(30_000),
        percent_as_ratio: schemes.iter().all(is_ratio),
    }
}

/// A Prometheus that stores the answers of `engine` at each instant between two times.
async fn oracle(engine: &Store, dialect: &Dialect, span: (Timestamp, Timestamp)) -> Store {
    let step_ms = dialect.step_ms;
    let grid = |at: Timestamp| Timestamp::from_millis(at.millis() / step_ms * step_ms).to_string();
    let step = Timestamp::from_millis(step_ms).to_string();
    let (start, end) = (grid(span.0), grid(span.1));
    let mut text = String::new();
    for (name, expression) in dialect.sources() {
        let series = engine.query_range(&expression, (&start, &end, &step)).await;
        let mut named = HashSet::new();
        for (labels, values) in series {
            let labels = labels.as_object().unwrap().iter();
            let labels = labels.filter(|(label, _)| *label != "__name__");
            let labels: Vec<String> = labels
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let labels = labels.join(",");
            for value in values.as_array().unwrap() {
                let (at, value) = (&value[0], value[1].as_str().unwrap());
                let _ = writeln!(text, "{name}{{{labels}}} {value} {at}");
            }
            assert!(
                named.insert(labels),
                "{name}: two series have the same labels"
            );
        }
    }
    let storage = Storage::of_instants();
    blocks(&storage, &text, |out| out.write_all(b"# EOF\n"));
    storage.start("").await
}

/// The series of MIG instances, whatever the case of their labels.
fn of_instances(batch: &Batch) -> Batch {
    let is_one = |it: &BatchSeries<'_>| it.labels.to_ascii_lowercase().contains("\"gpu_i_id\"");
    let mut of = Batch::new(batch.signal);
    for series in batch.iter().filter(is_one) {
        of.begin_series(series.key, series.labels);
        series.samples.iter().for_each(|sample| of.push(*sample));
    }
    of
}

/// The pods at a time as series, so that expressions can join with them: owners as labels.
fn inventory(fleet: &Fleet, from: Timestamp, at: Timestamp) -> String {
    let mut text = format!("# TYPE {POD} gauge\n");
    let inventory = fleet.inventory(at);
    for pod in &inventory.pods {
        let mut labels = format!(
            "gpu=\"{}\",ns=\"{}\",po=\"{}\",pn=\"{}\"",
            pod.requests_gpu(),
            pod.namespace,
            pod.name,
            pod.node.as_deref().unwrap_or_default(),
        );
        for owner in &pod.owners {
            let workload = &inventory.workloads[*owner as usize];
            let label = owner_label(&workload.kind.resource);
            let _ = write!(labels, ",{label}=\"{}\"", workload.name);
        }
        // Instants look back at most five minutes.
        let mut when = from - Duration::from_secs(120);
        while when <= at {
            let _ = writeln!(text, "{POD}{{{labels}}} 1 {when}");
            when = when + Duration::from_secs(120);
        }
    }
    text
}
