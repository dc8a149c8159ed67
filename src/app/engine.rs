//! The poll loop: queries Prometheus, feeds the pipeline, publishes the snapshot.
//!
//! The load on Prometheus does not depend on the number of autoscalers: a poll is one query
//! for all fields, or one for each if the store refuses that. Every round publishes a
//! snapshot, even a failed one: its values age by their own timestamps.

mod numbers;
mod report;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::provider::gpu::GpuProvider;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Check;
use crate::telemetry::metrics::Metrics;
use apimachinery::condition::Condition;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use configuration::Config;
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::metrics::built_in;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::MetricSpec;
use gpu_metrics::signal::{SignalId, SignalSpec};
use prometheus_source::{Error, Prometheus, SeriesQuery};
use report::Failure;

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

/// The Prometheus in metrics: the key of its settings.
const KEY: &str = "prometheus";

/// The poll loop.
pub(crate) struct Engine {
    prometheus: Prometheus,
    signals: Vec<SignalSpec>,
    pipeline: Pipeline,
    /// When the next round is due, as the time since the start of the engine. A wall clock that
    /// is set back must not delay it.
    due: Duration,
    poll: Option<Duration>,
    inventory: watch::Receiver<Arc<Inventory>>,
    provider: Arc<GpuProvider>,
    metrics: Arc<Metrics>,
    /// The check of readiness that values are computed.
    first_poll: Check,
    /// Whether queries fail.
    failure: Condition<Failure, Timestamp>,
    /// The clock of Prometheus minus the local clock, in milliseconds, if they differ.
    skew_ms: i64,
    /// The start of the monotonic clock for waits.
    started: Instant,
}

/// The results of a round of queries.
#[derive(Default)]
struct Round {
    is_answered: bool,
    failed: BTreeSet<SignalId>,
    /// The last one.
    error: Option<Error>,
}

/// The provider of a configuration's metrics; of none if GPUs are not served.
pub(crate) fn provider(config: &Config) -> Arc<GpuProvider> {
    let metrics = match config.gpus_enabled {
        true => metrics(config),
        false => Vec::new(),
    };
    Arc::new(GpuProvider::new(&metrics))
}

fn metrics(config: &Config) -> Vec<MetricSpec> {
    let specs = built_in().into_iter();
    specs.chain(config.metrics.iter().cloned()).collect()
}

impl Engine {
    /// An engine that publishes to `provider` and has not polled yet.
    pub(crate) fn new(
        config: Config,
        prometheus: Prometheus,
        inventory: watch::Receiver<Arc<Inventory>>,
        provider: Arc<GpuProvider>,
        telemetry: &Telemetry,
    ) -> Self {
        let settings = Settings {
            metrics: metrics(&config),
            policy: config.policy,
            signals: config.signals,
        };
        Self {
            prometheus,
            signals: settings.signals.clone(),
            pipeline: Pipeline::new(settings),
            due: Duration::ZERO,
            poll: config.poll,
            inventory,
            provider,
            metrics: Arc::clone(&telemetry.metrics),
            first_poll: telemetry.health.register("first-poll", false),
            failure: Condition::default(),
            skew_ms: 0,
            started: Instant::now(),
        }
    }

    /// Waits until the cluster's objects are listed, then polls. Without pods the server
    /// would report ready and answer 404.
    pub(super) async fn run_in_cluster(mut self) {
        // An error means that the watches have ended, which ends the process.
        let _ = self.inventory.changed().await;
        self.run().await;
    }

    /// Polls until cancelled.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::time::sleep_until(self.started + self.due).await;
            self.poll().await;
            self.publish();
            // Without publication values would expire before a late poll, and return.
            let beat = PUBLISH_EVERY.min(self.interval());
            while self.started.elapsed() + beat < self.due {
                tokio::time::sleep(beat).await;
                self.publish();
            }
        }
    }

    /// One round of queries, which have the same time: one for all signals if the store
    /// allows it, otherwise one for each.
    async fn poll(&mut self) {
        let now = clock::now();
        self.pipeline.start_over_if_set_back(now);
        let wanted = self.wanted(now);
        let together = match self.prometheus.combines(now) {
            true => wanted.len().max(1),
            false => 1,
        };
        let due = wanted.chunks(together).map(<[_]>::to_vec);
        let mut due: VecDeque<Vec<SignalSpec>> = due.collect();
        let mut round = Round::default();
        while let Some(specs) = due.pop_front() {
            let began = Instant::now();
            let read = self.read(&specs, now).await;
            if let Err(error) = &read
                && self.prometheus.combines(now)
                && error.is_of_query
            {
                self.prometheus.separate(error, now);
                due = specs.into_iter().map(|spec| vec![spec]).collect();
                continue;
            }
            self.count_queries(&specs, &read, began.elapsed(), now);
            match read {
                Ok(()) => round.is_answered = true,
                Err(error) => {
                    round.failed.extend(specs.iter().map(|spec| spec.id));
                    // Queries of other signals would fail too.
                    if !error.is_of_query {
                        due.clear();
                    }
                    round.error = Some(error);
                }
            }
        }
        self.end(round, now);
    }

    /// The signals to query.
    fn wanted(&self, now: Timestamp) -> Vec<SignalSpec> {
        let is_wanted = |spec: &&SignalSpec| self.pipeline.is_wanted(spec.id, now);
        let (wanted, others): (Vec<_>, Vec<_>) = self.signals.iter().partition(is_wanted);
        for spec in others {
            let last = &self.metrics.query_last_success_timestamp_seconds;
            last.set([KEY, &spec.name], None);
        }
        wanted.into_iter().cloned().collect()
    }

    /// Reads the samples of signals into the pipeline, the oldest part first.
    async fn read(&mut self, signals: &[SignalSpec], now: Timestamp) -> Result<(), Error> {
        let specs: Vec<&SignalSpec> = signals.iter().collect();
        let (pipeline, metrics) = (&mut self.pipeline, &self.metrics);
        let ranges = specs.iter().map(|it| pipeline.range(it.id, now));
        let mut left = ranges.max().unwrap_or_default();
        let mut take = |batch: &Batch| {
            let report = pipeline.take_part(batch, now);
            if let Some(spec) = specs.iter().find(|spec| spec.id == batch.signal) {
                numbers::count_intake(metrics, &spec.name, &report);
            }
        };
        loop {
            let range = left.min(MOST_RANGE);
            left -= range;
            let query = SeriesQuery {
                specs: &specs,
                at: now - left,
                range,
            };
            let fetched = self.prometheus.fetch(&query, clock::now(), &mut take);
            let skew_ms = fetched.await?;
            self.skew_ms = skew_ms.filter(|it| it.abs() >= SKEW_MIN_MS).unwrap_or(0);
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// Records how the query of these signals ended.
    fn count_queries(
        &mut self,
        signals: &[SignalSpec],
        read: &Result<(), Error>,
        took: Duration,
        now: Timestamp,
    ) {
        let outcome = read.as_ref().err();
        let outcome = outcome.map_or("success", |error| error.kind.label());
        let metrics = &self.metrics;
        for spec in signals {
            metrics.queries_total.add([KEY, &spec.name, outcome], 1);
            metrics.query_duration_seconds.observe([&spec.name], took);
            if read.is_ok() {
                self.pipeline.answered(spec.id, now);
                let last = &metrics.query_last_success_timestamp_seconds;
                last.set([KEY, &spec.name], now.as_secs_f64());
            }
        }
    }

    /// Ends a round: decides when the next one is due.
    fn end(&mut self, round: Round, now: Timestamp) {
        self.pipeline.end_round();
        let is_answered = round.is_answered || round.error.is_none();
        self.note(round, now);
        let (elapsed, interval) = (self.started.elapsed(), self.interval());
        if !is_answered {
            // Most failures are short, and values expire meanwhile.
            self.due = elapsed + interval.min(POLL_MAX);
        }
        // Rounds are evenly spaced, whatever they take; missed ones are skipped.
        while self.due <= elapsed {
            self.due += interval;
        }
    }

    /// The poll interval: the configured one; otherwise a third of the shortest scrape
    /// interval, or all of that for a large fleet.
    fn interval(&self) -> Duration {
        if let Some(poll) = self.poll {
            return poll;
        }
        let store = self.pipeline.store();
        let Some(shortest) = store.shortest_scrape_ms() else {
            return POLL_MAX;
        };
        let scrape = Duration::from_millis(u64::try_from(shortest).unwrap_or(0));
        if store.series_len() > SMALL_FLEET_SERIES {
            return scrape.clamp(POLL_MIN, POLL_MAX_LARGE);
        }
        (scrape / 3).clamp(POLL_MIN, POLL_MAX)
    }

    /// Serves the values of this time. Findings wait until they cover all signals, because
    /// a replica that has just started has not yet measured the delay of the store.
    fn publish(&mut self) {
        let now = clock::now();
        let inventory = Arc::clone(&self.inventory.borrow());
        let snapshot = self.pipeline.publish(&inventory, now);
        let series = self.pipeline.store().series_len();
        numbers::show_snapshot(&self.metrics, &snapshot, now, series);
        let report = self.pipeline.is_ready(now).then(|| self.report(&snapshot));
        self.provider.publish(Arc::new(snapshot));
        if let Some(report) = report {
            self.provider.tell(Arc::new(report));
            self.first_poll.set(true);
        }
    }
}
