//! The poll loop: queries Prometheus, feeds the pipeline, publishes the snapshot.
//!
//! The load on Prometheus does not depend on the number of autoscalers: a poll is one query
//! for all fields, or one for each if the store refuses that. Every round publishes a
//! snapshot, even a failed one: its values age by their own timestamps.

mod reports;
mod telemetry;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::finding_reports::FindingLog;
use crate::provider::gpu::GpuProvider;
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Weight};
use crate::telemetry::metrics::Metrics;
use apimachinery::condition::Condition;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use configuration::Config;
use gpu_metrics::batch::{Batch, PrometheusId};
use gpu_metrics::dcgm::metrics::built_in;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::MetricSpec;
use gpu_metrics::signal::{SignalId, SignalSpec};
use prometheus_source::pace::Pace;
use prometheus_source::{Error, ErrorKind, Prometheus, SeriesQuery};
use reports::{Failure, log_refused};

/// The default time between polls, and the longest for a small fleet. It is the most by
/// which a sample is served late.
const POLL_MAX: Duration = Duration::from_secs(5);

/// The longest time between polls for a large fleet, which is polled once per scrape.
const POLL_MAX_LARGE: Duration = Duration::from_secs(60);

/// The shortest time between polls.
const POLL_MIN: Duration = Duration::from_secs(1);

/// The interval of publications while the engine waits to query. Values expire thirty
/// seconds after the window that they were computed for.
const PUBLISH_EVERY: Duration = Duration::from_secs(15);

/// The most series of a small fleet, which is polled several times per scrape interval:
/// Prometheus evaluates a query over this number in some ten milliseconds (docs/stores.md,
/// "Answers").
const SMALL_FLEET_SERIES: usize = 10_000;

/// The longest range of one query. A longer past, as at the start, is read in parts.
const MOST_RANGE: Duration = Duration::from_secs(300);

/// Smaller differences of the clocks are below the resolution of the `Date` header.
const SKEW_MIN_MS: i64 = 2_000;

/// The only Prometheus.
const PROMETHEUS: PrometheusId = PrometheusId(0);

/// The Prometheus in metrics: the key of its settings.
const KEY: &str = "prometheus";

/// The connections of an engine to the rest of the server.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    inventory: watch::Receiver<Arc<Inventory>>,
    /// Serves the values.
    pub(crate) provider: Arc<GpuProvider>,
    /// Ready once the first round has ended.
    first_round: Check,
    /// The check `gpu-data`: warnings about the data.
    data_check: Check,
    pub(super) telemetry: Telemetry,
}

impl Wiring {
    /// Connects no engine yet. Discovery shows the metrics of `config`.
    pub(crate) fn new(
        config: &Config,
        inventory: watch::Receiver<Arc<Inventory>>,
        telemetry: Telemetry,
    ) -> Self {
        let health = &telemetry.health;
        let waiting = Some("the first round of queries has not ended");
        let first_round = health.register("first-poll", Weight::Readiness, waiting);
        let provider = GpuProvider::new(&metrics(config));
        let provider = Arc::new(provider.requested_by(&config.gpu_resources));
        let source = Arc::clone(&provider);
        health.register_fn("metrics-source", Weight::Detail, move || source.trouble());
        let wiring = Self {
            inventory,
            provider,
            first_round,
            data_check: health.register("gpu-data", Weight::Detail, None),
            telemetry,
        };
        if !config.gpus_enabled {
            wiring.rest();
        }
        wiring
    }

    /// Clears both checks, because no engine polls.
    pub(super) fn rest(&self) {
        self.first_round.set(None);
        self.data_check.set(None);
    }
}

/// The metrics of a configuration; none if GPUs are not served.
fn metrics(config: &Config) -> Vec<MetricSpec> {
    if !config.gpus_enabled {
        return Vec::new();
    }
    let specs = built_in().into_iter();
    specs.chain(config.metrics.iter().cloned()).collect()
}

/// The poll loop.
pub(crate) struct Engine {
    prometheus: Prometheus,
    signals: Vec<SignalSpec>,
    pipeline: Pipeline,
    pace: Pace,
    poll: Option<Duration>,
    wiring: Wiring,
    said: FindingLog,
    /// Whether queries fail.
    condition: Condition<Failure, Timestamp>,
    /// The clock of Prometheus minus the local clock, in milliseconds, if they differ.
    skew_ms: i64,
    /// Whether a round has ended.
    has_polled: bool,
    /// Whether rounds find no series.
    emptiness: Condition<(), ()>,
    /// The start of the monotonic clock for waits.
    started: Instant,
}

/// Signals that one query selects.
struct Selection {
    signals: Vec<SignalSpec>,
    range: Duration,
}

/// A round of queries, which have the same time.
struct Round {
    now: Timestamp,
    due: VecDeque<Selection>,
    answered: BTreeSet<SignalId>,
    failed: BTreeSet<SignalId>,
    error: Option<Error>,
}

impl Engine {
    /// An engine with these settings that has not polled yet.
    pub(crate) fn new(config: Config, prometheus: Prometheus, wiring: Wiring) -> Self {
        let settings = Settings {
            metrics: metrics(&config),
            policy: config.policy,
            signals: config.signals,
            exporter: config.exporters,
            prometheus: 1,
        };
        Self {
            prometheus,
            signals: settings.signals.clone(),
            pipeline: Pipeline::new(settings),
            pace: Pace::new(config.poll.unwrap_or(POLL_MIN), Duration::ZERO, 0.0),
            poll: config.poll,
            wiring,
            said: FindingLog::default(),
            condition: Condition::default(),
            skew_ms: 0,
            has_polled: false,
            emptiness: Condition::default(),
            started: Instant::now(),
        }
    }

    fn metrics(&self) -> &Metrics {
        &self.wiring.telemetry.metrics
    }

    /// Polls until cancelled.
    pub(crate) async fn run(mut self) {
        loop {
            let due = self.started + self.pace.due();
            let beat = Instant::now() + PUBLISH_EVERY.min(self.interval());
            // Without publication values would expire before a late poll, and return.
            if self.has_polled && beat < due {
                tokio::time::sleep_until(beat).await;
            } else {
                tokio::time::sleep_until(due).await;
                self.poll().await;
            }
            self.publish();
        }
    }

    /// One round of queries.
    async fn poll(&mut self) {
        let mut round = self.begin();
        while let Some(selection) = round.due.pop_front() {
            let began = Instant::now();
            let read = self.read(&selection, round.now).await;
            let took = began.elapsed();
            let Err(error) = read else {
                self.answered(&selection, took, &mut round);
                continue;
            };
            if selection.signals.len() > 1 && error.is_of_query() {
                self.prometheus.separate(&error, round.now);
                for spec in selection.signals.into_iter().rev() {
                    round.due.push_front(Selection {
                        signals: vec![spec],
                        ..selection
                    });
                }
                continue;
            }
            self.failed(&selection, &error, took, &mut round);
            if is_of_store(&error) {
                round.due.clear();
            }
            round.error = Some(error);
        }
        self.end(round);
    }

    /// The queries of a round: one for all signals, if the store allows it.
    fn begin(&mut self) -> Round {
        let now = clock::now();
        self.pipeline.start_over_if_set_back(PROMETHEUS, now);
        let combines = self.prometheus.combines(now);
        let mut due: VecDeque<Selection> = VecDeque::new();
        for spec in &self.signals {
            if !self.pipeline.is_wanted(PROMETHEUS, spec.id, now) {
                let last = &self.metrics().query_last_success_timestamp_seconds;
                last.set([KEY, &spec.name], None);
                continue;
            }
            let range = self.pipeline.range(PROMETHEUS, spec.id, now);
            match due.front_mut().filter(|_| combines) {
                Some(selection) => {
                    selection.signals.push(spec.clone());
                    selection.range = selection.range.max(range);
                }
                None => due.push_back(Selection {
                    signals: vec![spec.clone()],
                    range,
                }),
            }
        }
        Round {
            now,
            due,
            answered: BTreeSet::new(),
            failed: BTreeSet::new(),
            error: None,
        }
    }

    /// Reads the samples of a selection into the pipeline, the oldest part first.
    async fn read(&mut self, selection: &Selection, now: Timestamp) -> Result<(), Error> {
        let specs: Vec<&SignalSpec> = selection.signals.iter().collect();
        let metrics = &self.wiring.telemetry.metrics;
        let pipeline = &mut self.pipeline;
        let mut take = |batch: &Batch| {
            let report = pipeline.take_part(batch, now);
            if let Some(spec) = specs.iter().find(|spec| spec.id == batch.signal) {
                telemetry::count_intake(metrics, &spec.name, &report);
                log_refused(spec, &report);
            }
        };
        let mut left = selection.range;
        loop {
            let range = left.min(MOST_RANGE);
            left -= range;
            let query = SeriesQuery {
                specs: &specs,
                at: now - left,
                range,
            };
            let fetched = self
                .prometheus
                .fetch(&query, clock::now(), &mut take)
                .await?;
            let skew_ms = fetched.clock_skew.unwrap_or(0);
            self.skew_ms = if skew_ms.abs() < SKEW_MIN_MS {
                0
            } else {
                skew_ms
            };
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    fn answered(&mut self, selection: &Selection, took: Duration, round: &mut Round) {
        for spec in &selection.signals {
            self.pipeline.answered(PROMETHEUS, spec.id, round.now);
            self.count_query(spec, "success", took);
            let last = &self.metrics().query_last_success_timestamp_seconds;
            last.set([KEY, &spec.name], round.now.as_secs_f64());
            round.answered.insert(spec.id);
        }
    }

    fn failed(&mut self, selection: &Selection, error: &Error, took: Duration, round: &mut Round) {
        for spec in &selection.signals {
            self.count_query(spec, error.kind().label(), took);
            round.failed.insert(spec.id);
        }
    }

    fn count_query(&self, spec: &SignalSpec, outcome: &str, took: Duration) {
        let metrics = self.metrics();
        metrics.queries_total.add([KEY, &spec.name, outcome], 1);
        metrics.query_duration_seconds.observe([&spec.name], took);
    }

    /// Ends a round: decides when the next one is due.
    fn end(&mut self, round: Round) {
        self.pipeline.end_round(PROMETHEUS);
        self.has_polled = true;
        let is_answered = !round.answered.is_empty() || round.error.is_none();
        self.note_failure(round);
        self.note_emptiness();
        let interval = self.interval();
        self.pace.set_interval(interval);
        let elapsed = self.started.elapsed();
        match is_answered {
            true => self.pace.succeeded(elapsed),
            false => self.pace.failed(elapsed, clock::jitter()),
        }
    }

    /// The poll interval: the configured one; otherwise a third of the shortest scrape
    /// interval of the targets, or all of that for a large fleet.
    fn interval(&self) -> Duration {
        if let Some(poll) = self.poll {
            return poll;
        }
        let store = self.pipeline.store();
        let scrapes = store.targets().iter().map(|(.., scrape_ms)| scrape_ms);
        let Some(shortest) = scrapes.min() else {
            return POLL_MAX;
        };
        let scrape = Duration::from_millis(u64::try_from(shortest).unwrap_or(0));
        if store.series_len() > SMALL_FLEET_SERIES {
            return scrape.clamp(POLL_MIN, POLL_MAX_LARGE);
        }
        (scrape / 3).clamp(POLL_MIN, POLL_MAX)
    }

    fn publish(&mut self) {
        let now = clock::now();
        let inventory = Arc::clone(&self.wiring.inventory.borrow());
        let began = Instant::now();
        let snapshot = self.pipeline.publish(&inventory, now);
        let took = began.elapsed();
        let is_ready = self.is_ready(now);
        let report = self.judge(&snapshot);
        self.tell(&snapshot, now, took, &report);
        if is_ready {
            self.wiring.first_round.set(None);
        }
        let provider = &self.wiring.provider;
        provider.publish_despite(Arc::new(snapshot), self.trouble());
        if let Some(report) = report {
            provider.tell(Arc::new(report));
        }
    }

    /// Whether the values cover all signals, or further waiting has no use.
    fn is_ready(&self, now: Timestamp) -> bool {
        self.has_polled && self.pipeline.is_ready(now)
    }
}

/// Whether a failure concerns Prometheus as a whole: a query of another signal would fail too.
fn is_of_store(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unreachable | ErrorKind::Tls | ErrorKind::ClockSkew
    )
}
