//! The poll loop: queries the source, feeds the pipeline, publishes the snapshot.
//!
//! The load on Prometheus is one query for each signal and poll, however many autoscalers
//! ask. A snapshot is published after every round, including a failed one: its values age
//! by their own timestamps.

mod round;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::Instant;

use super::findings::Said;
use super::{findings, measure};
use crate::provider::gpu::{GpuProvider, ServedProvider};
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Heartbeat, Weight};
use crate::telemetry::metrics::{Metrics, catalog};
use ::findings::{Report, source};
use apimachinery::condition::Condition;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use configuration::Config;
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::metrics::built_in;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::MetricSpec;
use gpu_metrics::signal::SignalSpec;
use gpu_metrics::snapshot::Snapshot;
use prometheus_source::Prometheus;
use prometheus_source::health::Journal;
use prometheus_source::pace::Pace;
use prometheus_source::retries::Retries;

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
    source: Prometheus,
    poll: Option<Duration>,
    provider: Arc<GpuProvider>,
    wiring: Wiring,
    ready: watch::Sender<bool>,
    said: Said,
    heartbeat: Heartbeat,
    journal: Journal,
    /// One for each of the parallel queries.
    batches: Vec<Batch>,
    /// Whether rounds find any series.
    emptiness: Condition<String, Instant>,
    /// The monotonic clock by which waits are measured.
    started: Instant,
    /// When each failed signal is queried again.
    retries: Retries,
    /// The source's clock minus the local clock, in milliseconds.
    skew_ms: i64,
    rounds: u64,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.heartbeat.done();
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
    pub(super) fn new(
        config: Config,
        source: Prometheus,
        provider: Arc<GpuProvider>,
        wiring: Wiring,
    ) -> Self {
        let settings = Settings {
            metrics: metrics(&config),
            policy: config.policy,
            signals: config.signals,
            exporter: config.exporters,
        };
        Self {
            signals: settings.signals.clone(),
            pipeline: Pipeline::new(settings),
            source,
            poll: config.poll,
            provider,
            ready: watch::Sender::new(false),
            said: Said::default(),
            heartbeat: wiring.telemetry.health.heartbeat("poll-loop"),
            wiring,
            journal: Journal::default(),
            batches: Vec::new(),
            emptiness: Condition::default(),
            started: Instant::now(),
            retries: Retries::default(),
            skew_ms: 0,
            rounds: 0,
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

    /// The time by the source's clock, which timestamps the samples.
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(clock::now().millis() + self.skew_ms)
    }

    /// Polls until cancelled.
    pub(super) async fn run(mut self) {
        let started = self.started;
        let mut pace = Pace::new(self.poll.unwrap_or(POLL_MIN), Duration::ZERO, 0.0);
        loop {
            let wait = pace.due().saturating_sub(started.elapsed());
            self.heartbeat.back_within(wait + LONGEST_ROUND);
            // Publishing goes on between queries: otherwise values would expire and come
            // back.
            let beat = self.interval().min(PUBLISH_EVERY);
            if beat < wait {
                tokio::time::sleep(beat).await;
                self.publish();
                continue;
            }
            tokio::time::sleep(wait).await;
            let round = self.round().await;
            self.publish();
            match round {
                Round::Complete | Round::Partial => {
                    pace.set_interval(self.until_next_round());
                    pace.succeeded(started.elapsed());
                }
                Round::Aborted => {
                    pace.set_interval(self.interval());
                    pace.failed(started.elapsed(), clock::jitter());
                }
            }
        }
    }

    /// The configured interval; otherwise a third of the scrape interval, or the whole of
    /// it for a large fleet.
    fn interval(&self) -> Duration {
        if let Some(poll) = self.poll {
            return poll;
        }
        let store = self.pipeline.store();
        if store.series_len() == 0 {
            return POLL_MAX;
        }
        let scrapes = store.targets().iter().map(|(.., scrape_ms)| scrape_ms);
        let quickest = u64::try_from(scrapes.min().unwrap_or(0)).unwrap_or(0);
        let scrape = Duration::from_millis(quickest);
        if store.series_len() > SMALL_FLEET_SERIES {
            return scrape.clamp(POLL_MIN, POLL_MAX_LARGE);
        }
        (scrape / 3).clamp(POLL_MIN, POLL_MAX)
    }

    /// The wait before the next round: the relist interval once no series has been found
    /// for that long.
    fn until_next_round(&self) -> Duration {
        let empty = self.emptiness.state().since().map(|since| since.elapsed());
        if empty.is_none_or(|empty| empty < self.wiring.relist) {
            return self.interval();
        }
        for signal in &self.signals {
            measure::rests(self.metrics(), &signal.name);
        }
        self.wiring.relist.max(self.interval())
    }

    fn publish(&mut self) {
        let now = self.now();
        let inventory = Arc::clone(&self.wiring.inventory.borrow());
        let began = Instant::now();
        let snapshot = self.pipeline.publish(&inventory, now);
        let snapshot = snapshot.with_skew(self.skew_ms);
        let took = began.elapsed();
        for notice in self.pipeline.notices() {
            tracing::info!("{notice}");
        }
        let trouble = self.trouble();
        let is_ready = self.pipeline.is_ready(now);
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
        let is_answered = self.rounds > 0 && self.journal.trouble().is_none();
        if is_ready && is_answered {
            self.ready.send_replace(true);
        }
    }

    /// Findings about the data; `None` before the first round.
    fn judge(&self, snapshot: &Snapshot) -> Option<Report> {
        let failing = self.journal.failing_alone();
        let trouble = self.journal.trouble().map(|(told, since)| {
            let fields = self.signals.iter().filter(|it| failing.contains(&it.id));
            let fields = fields.map(|it| it.name.as_str());
            source::unanswered(fields, since, (&told.how, told.remedy))
        });
        if failing.is_empty()
            && let Some(trouble) = trouble
        {
            return Some(source::alone(trouble, "Prometheus does not answer"));
        }
        if let Some(why) = self.emptiness.state().reason() {
            return Some(source::without_series(why));
        }
        let seen = source::PolledSource {
            snapshot,
            store: self.pipeline.store(),
            failing: &failing,
        };
        (self.rounds > 0).then(|| source::check(seen, trouble))
    }

    /// Updates the metrics and checks of the engine in force.
    fn tell(
        &mut self,
        snapshot: &Snapshot,
        now: Timestamp,
        took: Duration,
        report: &Option<Report>,
    ) {
        let series = self.pipeline.store().series_len();
        self.metrics()
            .observe(&catalog::SNAPSHOT_SECONDS, &[], took);
        measure::published(self.metrics(), snapshot, now, series);
        let Some(report) = report else { return };
        // A replica that has just started has not yet measured how late the store is.
        let is_seen = report.skipped.is_empty() && self.pipeline.is_ready(now);
        findings::count(self.metrics(), &source::CODES, &report.findings, |_| {
            is_seen
        });
        // Before that, another check and other log lines report the state.
        if is_seen {
            let said = self.said.say(&source::CODES, &report.findings);
            let is_odd = !said.is_empty();
            self.wiring.oddities.show(is_odd.then(|| said.join("; ")));
        }
    }

    /// Why values may be missing, for readers without the log: the source has no series,
    /// or the newest reason that it fails, without address and text.
    fn trouble(&self) -> Option<String> {
        let Some((told, since)) = self.journal.trouble() else {
            return self.emptiness.state().reason().cloned();
        };
        Some(format!(
            "queries to Prometheus have failed since {} ({}); see the server's log",
            since.whole_second().date(),
            told.kind.label()
        ))
    }

    /// Records whether there are series; that there are none only once all signals were
    /// answered.
    fn note_emptiness(&mut self, round: Round) {
        let is_empty = self.pipeline.store().series_len() == 0;
        if is_empty && round != Round::Complete {
            return;
        }
        let none = is_empty.then(|| no_series(self.source.matchers()));
        if self.emptiness.set(none, Instant::now()).is_some() {
            match self.emptiness.state().reason() {
                Some(none) => tracing::warn!(source = self.source.address(), "{none}"),
                None => tracing::info!("DCGM series are found in Prometheus now"),
            }
        }
    }
}
