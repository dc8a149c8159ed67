//! The poll loop: queries the source, feeds the pipeline, publishes the snapshot.
//!
//! The load on Prometheus is one query a poll, and in a large fleet one for each signal and
//! poll, however many autoscalers ask. Each Prometheus is polled by itself: one that is slow
//! or down holds back no other. A snapshot is published after every round, including a
//! failed one: its values age by their own timestamps.

mod reports;
mod round;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::findings::Said;
use super::measure;
use crate::provider::gpu::{GpuProvider, ServedProvider};
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Heartbeat, Weight};
use crate::telemetry::metrics::Metrics;
use apimachinery::condition::Condition;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use configuration::Config;
use gpu_metrics::batch::PrometheusId;
use gpu_metrics::dcgm::metrics::built_in;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::MetricSpec;
use gpu_metrics::signal::SignalSpec;
use gpu_metrics::targets::JobId;
use gpu_metrics::unit::Scale;
use prometheus_source::Prometheus;
use server::{Client, Server, Step};

/// The default time between polls, and the longest for a small fleet: a sample is served
/// at most this much late.
const POLL_MAX: Duration = Duration::from_secs(5);

/// The longest time between polls for a large fleet, which is polled once a scrape.
const POLL_MAX_LARGE: Duration = Duration::from_secs(60);

/// The shortest time between polls.
const POLL_MIN: Duration = Duration::from_secs(1);

/// How often values are published while the engine waits to query the source: they expire
/// thirty seconds after the window that they were computed for.
const PUBLISH_EVERY: Duration = Duration::from_secs(15);

/// The most series of a small fleet, whose poll follows the scrape interval: a query over
/// so many costs Prometheus some ten milliseconds (docs/stores.md, "Answers").
const SMALL_FLEET_SERIES: usize = 10_000;

/// The message where Prometheus has no DCGM series.
fn no_series(matchers: &[(String, String)]) -> String {
    let matchers = matchers.iter();
    let matchers = matchers.map(|(label, value)| equals(label, value));
    let with = match matchers.reduce(|one, other| format!("{one},{other}")) {
        Some(matchers) => {
            format!(" with {{{matchers}}}: check these labels (prometheus.matchers), and")
        }
        None => ": check".to_owned(),
    };
    format!(
        "no DCGM series found in Prometheus{with} that dcgm-exporter runs and is scraped; without GPUs, write \
         gpu: {{enabled: false}}"
    )
}

/// The longest round: every query has a time limit. A loop that exceeds this is stuck or
/// dead, and its values would age until none is left.
const LONGEST_ROUND: Duration = Duration::from_secs(1800);

/// What every engine is connected to.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    inventory: watch::Receiver<Arc<Inventory>>,
    /// How often to look for series after none has been found for this long.
    relist: Duration,
    /// The provider in force.
    pub(crate) served: ServedProvider,
    /// Ready once the first round has ended.
    first_round: Check,
    /// Reports what is odd about the data.
    oddities: Check,
    pub(super) telemetry: Telemetry,
}

impl Wiring {
    /// No engine runs yet; discovery shows the metrics of `config`.
    pub(crate) fn new(
        config: &Config,
        inventory: watch::Receiver<Arc<Inventory>>,
        relist: Duration,
        telemetry: Telemetry,
    ) -> Self {
        let health = &telemetry.health;
        let waiting = Some("the first round of queries has not ended");
        let first_round = health.register("first-poll", Weight::Readiness, waiting);
        let served: ServedProvider = Arc::new(ArcSwap::new(provider(config)));
        let in_force = Arc::clone(&served);
        health.ask("metrics-source", Weight::Detail, move || {
            in_force.load().trouble()
        });
        let wiring = Self {
            inventory,
            relist,
            served,
            first_round,
            oddities: health.register("gpu-data", Weight::Detail, None),
            telemetry,
        };
        if !config.gpus_enabled {
            wiring.rest();
        }
        wiring
    }

    /// No engine polls.
    pub(super) fn rest(&self) {
        self.first_round.show(None);
        self.oddities.show(None);
    }
}

/// The metrics of a configuration; none where GPUs are not served.
fn metrics(config: &Config) -> Vec<MetricSpec> {
    if !config.gpus_enabled {
        return Vec::new();
    }
    let specs = built_in().into_iter();
    specs.chain(config.metrics.iter().cloned()).collect()
}

/// A provider of a configuration's metrics, without values yet.
pub(super) fn provider(config: &Config) -> Arc<GpuProvider> {
    let provider = GpuProvider::new(&metrics(config));
    Arc::new(provider.requested_by(&config.gpu_resources))
}

/// The poll loop.
pub(super) struct Engine {
    signals: Vec<SignalSpec>,
    pipeline: Pipeline,
    servers: Vec<Server>,
    /// The connections, before the first round.
    clients: Vec<Client>,
    /// The tasks that hold them.
    running: JoinSet<Step>,
    poll: Option<Duration>,
    provider: Arc<GpuProvider>,
    wiring: Wiring,
    ready: watch::Sender<bool>,
    said: Said,
    heartbeat: Heartbeat,
    /// The logged unit of each job's utilisation.
    units: BTreeMap<JobId, Scale>,
    /// Whether rounds find any series.
    emptiness: Condition<String, Instant>,
    /// The monotonic clock by which waits are measured.
    started: Instant,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // After a panic the heartbeat runs out, and the server is restarted.
        if !std::thread::panicking() {
            self.heartbeat.done();
        }
    }
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    /// Every signal was answered.
    Complete,
    /// At least one was not.
    Partial,
    /// The source as a whole did not answer; the remaining signals were not queried.
    Aborted,
}

impl Engine {
    /// An engine of these settings that has not polled yet; `provider` serves its values.
    /// The sources are in the order of the configuration.
    pub(super) fn new(
        config: Config,
        sources: Vec<Prometheus>,
        provider: Arc<GpuProvider>,
        wiring: Wiring,
    ) -> Self {
        let settings = Settings {
            metrics: metrics(&config),
            policy: config.policy,
            signals: config.signals,
            exporter: config.exporters,
            prometheus: u8::try_from(sources.len()).unwrap_or(u8::MAX),
        };
        let (servers, poll) = (settings.prometheus, config.poll.unwrap_or(POLL_MIN));
        let client = |(id, source)| Client {
            id: PrometheusId(id),
            source,
            batches: Vec::new(),
        };
        Self {
            signals: settings.signals.clone(),
            pipeline: Pipeline::new(settings),
            servers: (0..servers).map(|place| Server::new(place, poll)).collect(),
            clients: (0..).zip(sources).map(client).collect(),
            running: JoinSet::new(),
            poll: config.poll,
            provider,
            ready: watch::Sender::new(false),
            said: Said::default(),
            heartbeat: wiring.telemetry.health.heartbeat("poll-loop"),
            wiring,
            units: BTreeMap::new(),
            emptiness: Condition::default(),
            started: Instant::now(),
        }
    }

    /// Becomes true once the values are those that another replica would serve.
    pub(super) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Whether this engine's values are served.
    fn is_in_force(&self) -> bool {
        Arc::ptr_eq(&self.wiring.served.load(), &self.provider)
    }

    fn metrics(&self) -> &Metrics {
        &self.wiring.telemetry.metrics
    }

    /// The clock by which samples are taken in minus the local clock, in milliseconds:
    /// that of the server furthest ahead, so that no sample is from the future. Samples
    /// of the others are later by the difference, as any lateness.
    fn skew_ms(&self) -> i64 {
        let skews = self.servers.iter().map(|server| server.skew_ms);
        skews.max().unwrap_or(0)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(clock::now().millis() + self.skew_ms())
    }

    /// Polls until cancelled.
    pub(super) async fn run(mut self) {
        for client in std::mem::take(&mut self.clients) {
            self.wait(client);
        }
        let mut beat = self.next_beat();
        loop {
            if !self.servers.iter().any(Server::is_stuck) {
                self.heartbeat.back_within(LONGEST_ROUND);
            }
            // Publishing goes on while servers are waited for: otherwise values would
            // expire and come back.
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

    /// Goes on after a task, and after all others that have ended: rounds that end
    /// together are published at once. Returns whether a round ended.
    fn advance_all(&mut self, first: Result<Step, JoinError>) -> bool {
        let mut is_over = self.advance(first);
        while let Some(step) = self.running.try_join_next() {
            is_over |= self.advance(step);
        }
        is_over
    }

    /// Goes on after a task. Returns whether a round ended.
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

    /// When to publish again, unless a round ends before.
    fn next_beat(&self) -> Instant {
        let intervals = self.servers.iter().map(|server| self.interval(server.id));
        Instant::now() + intervals.fold(PUBLISH_EVERY, Duration::min)
    }

    /// The configured interval; otherwise a third of the scrape interval of a server, or
    /// the whole of it for a large fleet.
    fn interval(&self, id: PrometheusId) -> Duration {
        if let Some(poll) = self.poll {
            return poll;
        }
        let store = self.pipeline.store();
        let is_of = |job: JobId| {
            let job = store.jobs().get(usize::from(job));
            job.is_some_and(|job| job.prometheus == id)
        };
        let targets = store.targets().iter().filter(|(_, job, _)| is_of(*job));
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

    /// The wait before the next round: the relist interval once no series has been found
    /// for that long.
    fn until_next_round(&self, id: PrometheusId) -> Duration {
        let empty = self.emptiness.state().since().map(|since| since.elapsed());
        if empty.is_none_or(|empty| empty < self.wiring.relist) {
            return self.interval(id);
        }
        for server in &self.servers {
            for signal in &self.signals {
                measure::rests(self.metrics(), (&server.key, &signal.name));
            }
        }
        self.wiring.relist.max(self.interval(id))
    }

    fn publish(&mut self) {
        let now = self.now();
        let inventory = Arc::clone(&self.wiring.inventory.borrow());
        let began = Instant::now();
        let snapshot = self.pipeline.publish(&inventory, now);
        let snapshot = snapshot.with_skew(self.skew_ms());
        let took = began.elapsed();
        self.log_units();
        let trouble = self.trouble();
        let is_ready = self.is_ready(now);
        let report = self.judge(&snapshot);
        if self.is_in_force() {
            self.tell(&snapshot, now, took, &report);
            // A start that gave up waiting while no query succeeds has no good news to log.
            match trouble {
                None if is_ready => self.wiring.first_round.set(None),
                Some(_) if is_ready => self.wiring.first_round.show(None),
                _ => {}
            }
        }
        self.provider.publish_despite(Arc::new(snapshot), trouble);
        if let Some(report) = report {
            self.provider.tell(Arc::new(report));
        }
        // A source without DCGM series has answered too.
        let is_answered = |it: &Server| it.rounds > 0 && it.journal.trouble().is_none();
        if is_ready && self.have_all_ended() && self.servers.iter().any(is_answered) {
            self.ready.send_replace(true);
        }
    }

    /// Whether every server has ended a round, in whatever way.
    fn have_all_ended(&self) -> bool {
        self.servers.iter().all(|server| server.last.is_some())
    }

    /// Whether the values are those of the signals, or waiting longer is no use.
    fn is_ready(&self, now: Timestamp) -> bool {
        self.pipeline.is_ready(now) && (self.pipeline.has_begun() || self.have_all_ended())
    }
}
