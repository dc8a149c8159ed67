//! The poll loop: ask the source, feed the pipeline, publish the snapshot.
//!
//! Its load on Prometheus is one query a signal and poll, however many
//! autoscalers ask. A snapshot is published after every round, also after one
//! that failed: what is known then ages by its own timestamps.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::{clock, measure};
use crate::core::batch::Batch;
use crate::core::inventory::Inventory;
use crate::core::rhythm::Shown;
use crate::core::signal::{SignalId, SignalSpec};
use crate::core::time::Timestamp;
use crate::dcgm::intake::Report;
use crate::pipeline::{Pipeline, Settings};
use crate::provider::gpu::GpuProvider;
use crate::source::health::{Event, Journal};
use crate::source::pace::Pace;
use crate::source::{Error, ErrorKind, Source};
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Heartbeat, State, Weight};
use crate::telemetry::metrics::Polls;

/// The default time between polls, and the longest: a sample waits no longer
/// than this to be served.
const POLL_MAX: Duration = Duration::from_secs(5);

/// Small fleets are polled more often, but not more often than this.
const POLL_MIN: Duration = Duration::from_secs(1);

/// A fleet of this many series costs Prometheus some ten milliseconds a query
/// (`dcgm.md` §5.2): up to here the poll follows the scrape interval.
const SMALL_FLEET_SERIES: usize = 10_000;

/// No round takes longer: every query has a time limit. A loop that does not
/// come back is stuck or dead, and values would age until none is left.
const LONGEST_ROUND: Duration = Duration::from_secs(1800);

/// How often the grid may change within one round: the scrape interval shows
/// first, then the exporter's.
const REFILLS: usize = 4;

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
    heartbeat: Heartbeat,
    journal: Journal,
    batch: Batch,
    said_empty: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("pipeline", &self.pipeline)
            .finish_non_exhaustive()
    }
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            heartbeat: settings.telemetry.health.heartbeat("poll-loop"),
            journal: Journal::default(),
            batch: Batch::new(SignalId::MEM_COPY_UTIL, bytes::Bytes::new()),
            said_empty: false,
        }
    }

    /// Polls until `stop` becomes true or its sender is gone.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        // Waits are of this clock, which nobody sets.
        let started = Instant::now();
        let mut pace = Pace::new(self.poll.unwrap_or(POLL_MIN), Duration::ZERO, 0.0);
        loop {
            let wait = pace.due().saturating_sub(started.elapsed());
            self.heartbeat.back_within(wait + LONGEST_ROUND);
            // Instants come while the source is left alone: what is known goes on
            // to be computed, or values would end and come again.
            let beat = self.interval();
            if beat < wait {
                tokio::select! {
                    () = tokio::time::sleep(beat) => self.publish_what_is_known(),
                    _ = stop.wait_for(|stop| *stop) => {
                        self.heartbeat.done();
                        return;
                    }
                }
                continue;
            }
            let round = tokio::select! {
                round = async {
                    tokio::time::sleep(wait).await;
                    self.round().await
                } => round,
                _ = stop.wait_for(|stop| *stop) => {
                    self.heartbeat.done();
                    return;
                }
            };
            self.publish_what_is_known();
            pace.set_interval(self.interval());
            match round {
                Round::Complete => pace.succeeded(started.elapsed()),
                Round::Partial | Round::Aborted => pace.failed(started.elapsed(), clock::jitter()),
            }
        }
    }

    /// How often to poll: as set; else, for small fleets, three times a scrape.
    fn interval(&self) -> Duration {
        if let Some(poll) = self.poll {
            return poll;
        }
        let store = self.pipeline.store();
        if store.series_len() > SMALL_FLEET_SERIES {
            return POLL_MAX;
        }
        let quickest = store
            .jobs()
            .iter()
            .map(|job| job.timing.scrape_ms)
            .min()
            .unwrap_or(0);
        let third = Duration::from_millis(u64::try_from(quickest / 3).unwrap_or(0));
        third.clamp(POLL_MIN, POLL_MAX)
    }

    /// Asks for every signal once; again, and further back, when the answers
    /// showed that the grid must change.
    async fn round(&mut self) -> Round {
        for _ in 0..REFILLS {
            let mut round = Round::Complete;
            let mut refill = false;
            for index in 0..self.signals.len() {
                let spec = self.signals[index].clone();
                match self.ask(&spec).await {
                    Ok(()) => {}
                    Err(fatal) => {
                        round = Round::Partial;
                        if fatal {
                            return Round::Aborted;
                        }
                    }
                }
                // The first signal shows the intervals; the last, what changed.
                let shown = match index {
                    _ if index + 1 == self.signals.len() => Some(Shown::All),
                    0 => Some(Shown::Some),
                    _ => None,
                };
                if shown.is_some_and(|shown| self.settle(shown)) {
                    refill = true;
                    break;
                }
            }
            if !refill {
                self.say_if_empty(round);
                return round;
            }
        }
        Round::Partial
    }

    /// Asks for one signal. The error says whether the others need not be
    /// asked either.
    async fn ask(&mut self, spec: &SignalSpec) -> Result<(), bool> {
        let now = clock::now();
        let range = self.pipeline.range(spec.id, now);
        let asked = Instant::now();
        match self
            .source
            .fetch(spec, now, range, now, &mut self.batch)
            .await
        {
            Ok(_) => {
                let took = asked.elapsed();
                let report = self.pipeline.take(&self.batch, now);
                let intake = measure::intake(&report);
                let name = &spec.name;
                self.polls.answered(name, took, measure::secs(now), intake);
                self.log_report(spec, &report);
                for event in self.journal.succeeded(spec.id, clock::now()) {
                    self.log(&event);
                }
                Ok(())
            }
            Err(error) => {
                let fatal = is_fatal(&error);
                if is_refusal(&error) {
                    self.pipeline.refused(spec.id);
                }
                let kind = error.kind().label();
                self.polls.failed(&spec.name, kind, asked.elapsed());
                if let Some(event) = self.journal.failed(spec.id, &error, clock::now()) {
                    self.log(&event);
                }
                Err(fatal)
            }
        }
    }

    fn settle(&mut self, shown: Shown) -> bool {
        let settled = self.pipeline.settle(clock::now(), shown);
        for notice in settled.notices {
            tracing::info!("{notice}");
        }
        settled.refill
    }

    /// Windows that were emptied to be filled again, and then were not, must not
    /// replace what is known: the last snapshot stands, and ages by its own times.
    fn publish_what_is_known(&mut self) {
        let emptied = self.pipeline.is_refilling(clock::now());
        if !emptied || self.provider.snapshot().is_none() {
            self.publish();
        }
    }

    fn publish(&mut self) {
        let now = clock::now();
        let inventory = (self.inventory)(now);
        let began = Instant::now();
        let snapshot = self.pipeline.publish(&inventory, now);
        let series = self.pipeline.store().series_len();
        let in_force = measure::in_force(&snapshot, now, began.elapsed(), series);
        self.polls.published(&in_force);
        let trouble = self.trouble();
        self.provider.publish_despite(Arc::new(snapshot), trouble);
        self.first_round.ok();
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

    fn log_report(&self, spec: &SignalSpec, report: &Report) {
        tracing::debug!(
            signal = spec.name,
            accepted = report.applied.accepted,
            repeated = report.applied.repeated,
            invalid = report.applied.invalid,
            too_old = report.applied.too_old,
            future = report.applied.future,
            new_series = report.new_series,
            unidentified = report.unidentified,
            "polled"
        );
        if report.refused > 0 {
            tracing::error!(
                signal = spec.name,
                refused = report.refused,
                "too many series: new ones are turned away; narrow the query with prometheus.matchers"
            );
        }
    }

    fn log(&self, event: &Event) {
        let source = self.source.address();
        match event {
            Event::Began { .. } => tracing::warn!(source, "{event}"),
            Event::Healed { .. } => tracing::info!(source, "{event}"),
        }
    }
}

/// Whether a failure concerns the source as a whole: asking for the other
/// signals would only wait as long again.
fn is_fatal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Tls | ErrorKind::ClockSkew
    )
}

/// Whether a shorter range may be answered where this one was not: limits on
/// samples, bytes and time.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Timeout | ErrorKind::Rejected | ErrorKind::Query | ErrorKind::TooLarge
    )
}
