//! The poll loop: ask the source, feed the pipeline, publish the snapshot.
//!
//! Its load on Prometheus is one query a signal and poll, however many
//! autoscalers ask. A snapshot is published after every round, also after one
//! that failed: what is known then ages by its own timestamps.

mod round;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::findings::Findings;
use super::{clock, measure};
use crate::core::batch::Batch;
use crate::core::inventory::Inventory;
use crate::core::signal::{SignalId, SignalSpec};
use crate::core::time::Timestamp;
use crate::pipeline::{Pipeline, Settings, Shown};
use crate::provider::gpu::GpuProvider;
use crate::source::Source;
use crate::source::health::Journal;
use crate::source::pace::Pace;
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Heartbeat, State, Weight};
use crate::telemetry::metrics::Polls;

/// The default time between polls, and the longest for a small fleet: a sample
/// waits no longer than this to be served.
const POLL_MAX: Duration = Duration::from_secs(5);

/// The longest for a large fleet, which is polled once a scrape.
const POLL_MAX_LARGE: Duration = Duration::from_secs(15);

/// Small fleets are polled more often, but not more often than this.
const POLL_MIN: Duration = Duration::from_secs(1);

/// A fleet of this many series costs Prometheus some ten milliseconds a query
/// (docs/stores.md, "Answers"): up to here the poll follows the scrape interval.
const SMALL_FLEET_SERIES: usize = 10_000;

/// No round takes longer: every query has a time limit. A loop that does not
/// come back is stuck or dead, and values would age until none is left.
const LONGEST_ROUND: Duration = Duration::from_secs(1800);

/// Gives the inventory in force at a time.
pub type InventoryAt = Box<dyn Fn(Timestamp) -> Arc<Inventory> + Send>;

/// What an engine is built from.
pub struct EngineSettings {
    /// How readings become values.
    pub pipeline: Settings,
    /// Where samples come from.
    pub source: Source,
    /// The cluster's objects.
    pub inventory: InventoryAt,
    /// How often to poll; `None`: by the data.
    pub poll: Option<Duration>,
    /// Who serves the values.
    pub provider: Arc<GpuProvider>,
    /// Told of every poll; ready once the first round has ended.
    pub telemetry: Telemetry,
}

impl std::fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineSettings")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// The poll loop.
pub struct Engine {
    signals: Vec<SignalSpec>,
    pipeline: Pipeline,
    source: Source,
    inventory: InventoryAt,
    poll: Option<Duration>,
    provider: Arc<GpuProvider>,
    polls: Polls,
    first_round: Check,
    /// What is odd about the data.
    oddities: Check,
    findings: Findings,
    heartbeat: Heartbeat,
    journal: Journal,
    /// One for each query that is asked side by side.
    batches: Vec<Batch>,
    said_empty: bool,
    /// The clock that waits are measured by, which nobody sets.
    started: Instant,
    /// When signals that failed are asked for again.
    retries: HashMap<SignalId, Pace>,
    /// The source's clock less ours, milliseconds.
    skew_ms: i64,
    rounds: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("pipeline", &self.pipeline)
            .finish_non_exhaustive()
    }
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    /// Every signal was answered.
    Complete,
    /// At least one was not.
    Partial,
    /// The source as a whole did not answer; the rest was not asked.
    Aborted,
}

impl Engine {
    /// An engine that has not polled yet.
    #[must_use]
    pub fn new(settings: EngineSettings) -> Self {
        let waiting = State::Waiting("the first round of queries has not ended".to_owned());
        let health = &settings.telemetry.health;
        let first_round = health.register("first-poll", Weight::Readiness, waiting);
        let provider = Arc::clone(&settings.provider);
        health.ask("metrics-source", Weight::Detail, move || {
            provider.trouble().map_or(State::Ok, State::Failed)
        });
        Self {
            signals: settings.pipeline.signals.clone(),
            pipeline: Pipeline::new(settings.pipeline),
            source: settings.source,
            inventory: settings.inventory,
            poll: settings.poll,
            provider: settings.provider,
            polls: settings.telemetry.metrics.polls().clone(),
            first_round,
            oddities: health.register("gpu-data", Weight::Detail, State::Ok),
            findings: Findings::default(),
            heartbeat: settings.telemetry.health.heartbeat("poll-loop"),
            journal: Journal::default(),
            batches: Vec::new(),
            said_empty: false,
            started: Instant::now(),
            retries: HashMap::new(),
            skew_ms: 0,
            rounds: 0,
        }
    }

    /// The time as the source has it: samples carry its times.
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(clock::now().millis() + self.skew_ms)
    }

    /// Polls until `stop` becomes true or its sender is gone.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let started = self.started;
        let mut pace = Pace::new(self.poll.unwrap_or(POLL_MIN), Duration::ZERO, 0.0);
        loop {
            let wait = pace.due().saturating_sub(started.elapsed());
            self.heartbeat.back_within(wait + LONGEST_ROUND);
            // Instants come while the source is left alone: what is known goes on
            // to be computed, or values would end and come again.
            let beat = self.interval();
            if beat < wait {
                tokio::select! {
                    () = tokio::time::sleep(beat) => self.publish(),
                    _ = stop.wait_for(|stop| *stop) => {
                        self.heartbeat.done();
                        return;
                    }
                }
                continue;
            }
            let (round, took) = tokio::select! {
                round = async {
                    tokio::time::sleep(wait).await;
                    let began = Instant::now();
                    let round = self.round().await;
                    (round, began.elapsed())
                } => round,
                _ = stop.wait_for(|stop| *stop) => {
                    self.heartbeat.done();
                    return;
                }
            };
            // A round that nobody answered says nothing of how long one takes.
            if round != Round::Aborted {
                self.pipeline.pace(self.interval(), took);
            }
            self.publish();
            pace.set_interval(self.interval());
            match round {
                Round::Complete | Round::Partial => pace.succeeded(started.elapsed()),
                Round::Aborted => pace.failed(started.elapsed(), clock::jitter()),
            }
        }
    }

    /// How often to poll: as set; else three times a scrape, large fleets once.
    fn interval(&self) -> Duration {
        if let Some(poll) = self.poll {
            return poll;
        }
        let store = self.pipeline.store();
        let scrapes = store.targets().iter().map(|(.., timing)| timing.scrape_ms);
        let quickest = u64::try_from(scrapes.min().unwrap_or(0)).unwrap_or(0);
        let scrape = Duration::from_millis(quickest);
        if store.series_len() > SMALL_FLEET_SERIES {
            return scrape.clamp(POLL_MIN, POLL_MAX_LARGE);
        }
        (scrape / 3).clamp(POLL_MIN, POLL_MAX)
    }

    fn settle(&mut self, shown: Shown, at: Timestamp) -> bool {
        let settled = self.pipeline.settle(at, shown);
        for notice in settled.notices {
            tracing::info!("{notice}");
        }
        settled.refill
    }

    fn publish(&mut self) {
        let now = self.now();
        let inventory = (self.inventory)(now);
        let began = Instant::now();
        let snapshot = self.pipeline.publish(&inventory, now);
        let series = self.pipeline.store().series_len();
        let took = began.elapsed();
        let figures = measure::in_force(&snapshot, now, series);
        self.polls.published(took, &figures);
        let findings = self.findings.say(&snapshot);
        self.oddities.set(match findings.is_empty() {
            true => State::Ok,
            false => State::Failed(findings.join("; ")),
        });
        let trouble = self.trouble();
        self.provider.publish_despite(Arc::new(snapshot), trouble);
        if self.pipeline.is_ready(now) {
            self.first_round.ok();
        }
    }

    /// How the source fails, for people without the log: no address, no text of
    /// its own.
    fn trouble(&self) -> Option<String> {
        let (kind, since) = self.journal.open().min_by_key(|(_, since)| *since)?;
        let since = jiff::Timestamp::from_second(since.secs()).ok()?;
        Some(format!(
            "queries to Prometheus have failed since {since} ({}); the server's log says why",
            kind.label()
        ))
    }

    fn say_if_empty(&mut self, round: Round) {
        let empty = self.pipeline.store().series_len() == 0;
        if empty && round == Round::Complete && !self.said_empty {
            tracing::warn!(
                source = self.source.address(),
                "no DCGM series found: check that dcgm-exporter runs and is scraped \
                 (asked for DCGM_FI_DEV_MEM_COPY_UTIL and its like)"
            );
        }
        self.said_empty = empty;
    }
}
