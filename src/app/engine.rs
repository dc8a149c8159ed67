//! The poll loop: queries the source, feeds the pipeline, publishes the snapshot.
//!
//! The load on Prometheus does not depend on the number of autoscalers: it is one query per
//! poll, or in a large fleet one query per signal and poll. Each Prometheus is polled
//! separately, so a slow or failed one does not delay the others. Every round publishes a
//! snapshot, even a failed one: its values age by their own timestamps.

mod reports;
mod round;
mod server;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::finding_reports::FindingLog;
use crate::provider::gpu::GpuProvider;
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Weight};
use crate::telemetry::metrics::Metrics;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use configuration::Config;
use gpu_metrics::batch::PrometheusId;
use gpu_metrics::dcgm::metrics::built_in;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::MetricSpec;
use gpu_metrics::signal::SignalSpec;
use prometheus_source::Prometheus;
use server::{Client, Server, Step};

/// The default time between polls, and the longest for a small fleet. It is the most by
/// which a sample is served late.
const POLL_MAX: Duration = Duration::from_secs(5);

/// The longest time between polls for a large fleet, which is polled once per scrape.
const POLL_MAX_LARGE: Duration = Duration::from_secs(60);

/// The shortest time between polls.
const POLL_MIN: Duration = Duration::from_secs(1);

/// The interval of publications while the engine waits to query the source. Values expire
/// thirty seconds after the window that they were computed for.
const PUBLISH_EVERY: Duration = Duration::from_secs(15);

/// The most series of a small fleet, which is polled several times per scrape interval:
/// Prometheus evaluates a query over this number in some ten milliseconds (docs/stores.md,
/// "Answers").
const SMALL_FLEET_SERIES: usize = 10_000;

/// The message for a Prometheus without DCGM series.
const NO_SERIES: &str = "no DCGM series found in Prometheus: check that dcgm-exporter runs and is \
                         scraped, and prometheus.matchers; without GPUs, write gpu: {enabled: false}";

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
        health.ask("metrics-source", Weight::Detail, move || source.trouble());
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
        self.first_round.show(None);
        self.data_check.show(None);
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
    signals: Vec<SignalSpec>,
    pipeline: Pipeline,
    servers: Vec<Server>,
    /// The connections until the first round begins; then tasks hold them.
    clients: Vec<Client>,
    /// The tasks that wait or query, each with its connection.
    running: JoinSet<Step>,
    poll: Option<Duration>,
    wiring: Wiring,
    said: FindingLog,
    /// Whether rounds find no series.
    is_empty: bool,
    /// The start of the monotonic clock for waits.
    started: Instant,
}

/// How a round ended; a later variant is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    /// Every signal was answered.
    Complete,
    /// At least one signal failed.
    Partial,
    /// The source as a whole failed; the remaining signals were not queried.
    Aborted,
}

impl Engine {
    /// An engine with these settings that has not polled yet.
    pub(crate) fn new(config: Config, source: Prometheus, wiring: Wiring) -> Self {
        let settings = Settings {
            metrics: metrics(&config),
            policy: config.policy,
            signals: config.signals,
            exporter: config.exporters,
            prometheus: 1,
        };
        let (servers, poll) = (settings.prometheus, config.poll.unwrap_or(POLL_MIN));
        let client = Client {
            id: PrometheusId(0),
            source,
            batches: Vec::new(),
        };
        Self {
            signals: settings.signals.clone(),
            pipeline: Pipeline::new(settings),
            servers: (0..servers).map(|place| Server::new(place, poll)).collect(),
            clients: vec![client],
            running: JoinSet::new(),
            poll: config.poll,
            said: FindingLog::default(),
            wiring,
            is_empty: false,
            started: Instant::now(),
        }
    }

    fn metrics(&self) -> &Metrics {
        &self.wiring.telemetry.metrics
    }

    /// The difference to add to the local clock for the time of samples, in milliseconds.
    /// It is that of the server furthest ahead, so that no sample is in the future. Samples
    /// of the other servers then appear older by the difference.
    fn skew_ms(&self) -> i64 {
        let skews = self.servers.iter().map(|server| server.skew_ms);
        skews.max().unwrap_or(0)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(clock::now().millis() + self.skew_ms())
    }

    /// Polls until cancelled.
    pub(crate) async fn run(mut self) {
        for client in std::mem::take(&mut self.clients) {
            self.wait(client);
        }
        let mut beat = self.next_beat();
        loop {
            // Publish while servers are waited for; otherwise values would expire and return.
            let is_due = tokio::select! {
                Some(step) = self.running.join_next() => self.advance_all(step),
                () = tokio::time::sleep_until(beat), if self.is_beat_wanted(beat) => true,
            };
            if is_due {
                self.publish();
                beat = self.next_beat();
            }
        }
    }

    /// Continues after a task, and after all others that have ended: rounds that end
    /// together are published once. Returns whether a round ended.
    fn advance_all(&mut self, first: Result<Step, JoinError>) -> bool {
        let mut is_over = self.advance(first);
        while let Some(step) = self.running.try_join_next() {
            is_over |= self.advance(step);
        }
        is_over
    }

    /// Continues after a task. Returns whether a round ended.
    fn advance(&mut self, step: Result<Step, JoinError>) -> bool {
        match step {
            Ok(Step::Due(client)) => self.begin(client),
            Ok(Step::Answered(client, now, answers)) => self.answered(client, now, answers),
            Ok(Step::Refused(client)) => self.refused(client),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => false,
            },
        }
    }

    /// Whether to publish at `beat`: a round has ended, and none begins until then.
    fn is_beat_wanted(&self, beat: Instant) -> bool {
        let is_near = |it: &Server| it.round.is_none() && self.started + it.pace.due() <= beat;
        let mut servers = self.servers.iter();
        servers.any(|it| it.last.is_some()) && !self.servers.iter().any(is_near)
    }

    /// When to publish next, unless a round ends before.
    fn next_beat(&self) -> Instant {
        let intervals = self.servers.iter().map(|server| self.interval(server.id));
        Instant::now() + intervals.fold(PUBLISH_EVERY, Duration::min)
    }

    /// The poll interval of a server: the configured one; otherwise a third of the shortest
    /// scrape interval of its targets, or all of that for a large fleet.
    fn interval(&self, id: PrometheusId) -> Duration {
        if let Some(poll) = self.poll {
            return poll;
        }
        let store = self.pipeline.store();
        let targets = store.targets().iter().filter(|(_, of, _)| *of == id);
        let Some(quickest) = targets.map(|(.., scrape_ms)| scrape_ms).min() else {
            return POLL_MAX;
        };
        let quickest = u64::try_from(quickest).unwrap_or(0);
        let scrape = Duration::from_millis(quickest);
        if store.series_len() > SMALL_FLEET_SERIES {
            return scrape.clamp(POLL_MIN, POLL_MAX_LARGE);
        }
        (scrape / 3).clamp(POLL_MIN, POLL_MAX)
    }

    fn publish(&mut self) {
        let now = self.now();
        let inventory = Arc::clone(&self.wiring.inventory.borrow());
        let began = Instant::now();
        let snapshot = self.pipeline.publish(&inventory, now);
        let snapshot = snapshot.with_skew(self.skew_ms());
        let took = began.elapsed();
        let trouble = self.trouble();
        let is_ready = self.is_ready(now);
        let report = self.judge(&snapshot);
        self.tell(&snapshot, now, took, &report);
        if is_ready {
            self.wiring.first_round.show(None);
        }
        self.wiring
            .provider
            .publish_despite(Arc::new(snapshot), trouble);
        if let Some(report) = report {
            self.wiring.provider.tell(Arc::new(report));
        }
    }

    /// Whether every server has ended a round, with or without success.
    fn have_all_ended(&self) -> bool {
        self.servers.iter().all(|server| server.last.is_some())
    }

    /// Whether the values cover all signals, or further waiting has no use.
    fn is_ready(&self, now: Timestamp) -> bool {
        self.pipeline.is_ready(now) && (self.pipeline.has_begun() || self.have_all_ended())
    }
}
