//! The rounds of queries to one Prometheus. All queries of a round have the same evaluation time.

use std::time::Duration;

use super::super::measure;
use super::server::{Client, Progress, Server, SignalRead, Step};
use super::{Engine, Round, SMALL_FLEET_SERIES};
use apimachinery::time::Timestamp;
use cluster_state::clock;
use gpu_metrics::batch::{Batch, PrometheusId};
use gpu_metrics::dcgm::intake::IntakeReport;
use gpu_metrics::signal::{SignalId, SignalSpec};
use prometheus_source::pace::Pace;
use prometheus_source::shard::Shard;
use prometheus_source::{Answered, Cause, DeviceSelection, Error, ErrorKind, Fetched, SignalQuery};

/// In a large fleet, signals that hardly change are queried in one of this many rounds. A
/// poll then is a scrape interval S, and a sample counts for three S: a larger number would
/// leave the signals without a sample before the next query.
const HARDLY_CHANGING_EVERY: u64 = 2;

/// Concurrent queries in a large fleet: the server receives one answer while Prometheus
/// evaluates the other query.
const SIDE_BY_SIDE: usize = 2;

/// Smaller differences of the clocks are below the resolution of the `Date` header.
const SKEW_MIN_MS: i64 = 2_000;

impl Engine {
    pub(super) fn server(&self, id: PrometheusId) -> &Server {
        &self.servers[usize::from(id.0)]
    }

    fn server_mut(&mut self, id: PrometheusId) -> &mut Server {
        &mut self.servers[usize::from(id.0)]
    }

    /// Starts a task that waits for the next round of a server.
    pub(super) fn wait(&mut self, client: Client) {
        let wait = self.server(client.id).pace.due();
        let wait = wait.saturating_sub(self.started.elapsed());
        self.running.spawn(async move {
            tokio::time::sleep(wait).await;
            Step::Due(client)
        });
    }

    /// Begins a round. Returns whether it ended at once, without a query.
    pub(super) fn begin(&mut self, client: Client) -> bool {
        let id = client.id;
        let (local, now) = (clock::now(), self.now());
        let at = Timestamp::from_millis(local.millis() + self.server(id).skew_ms);
        self.pipeline.start_over_if_set_back(id, now);
        for spec in &self.signals {
            if !self.pipeline.is_wanted(id, spec.id, now) {
                measure::rests(self.metrics(), (&self.server(id).key, &spec.name));
            }
        }
        let due = |spec: &&SignalSpec| self.is_due(id, spec, now);
        let due = self.signals.iter().filter(due);
        let due = due.map(|spec| self.read_of(id, spec, (at, now))).collect();
        // The size of the fleet is unknown before the first complete round. One query for
        // all fields of a large fleet would overload a Prometheus that has just started.
        let is_known = self.server(id).last == Some(Round::Complete);
        let accepts_combined = is_known && client.source.accepts_combined(local);
        self.server_mut(id).round = Some(Progress {
            now,
            outcome: Round::Complete,
            due,
            reads: Vec::new(),
            accepts_combined,
            is_combined: false,
        });
        self.ask(client)
    }

    /// The queries for a signal in this round.
    fn read_of(
        &self,
        id: PrometheusId,
        spec: &SignalSpec,
        (at, now): (Timestamp, Timestamp),
    ) -> SignalRead {
        let range = self.pipeline.range(id, spec.id, now);
        // If only MIG instances need profiling fields, the queries leave out whole GPUs. Every
        // ten minutes a query includes them, to check whether others need the fields too.
        let is_of_mig_alone = self.pipeline.is_of_mig_alone(id, spec.id, now);
        SignalRead {
            spec: spec.clone(),
            devices: match is_of_mig_alone {
                true => DeviceSelection::Mig,
                false => DeviceSelection::All,
            },
            at,
            range,
            shard: Shard::first_of(self.server(id).sharding(spec.id).count),
            largest: 0,
            is_over: false,
        }
    }

    /// Processes answers and continues. Returns whether the round ended.
    pub(super) fn answered(
        &mut self,
        client: Client,
        now: Timestamp,
        answers: Vec<Answered>,
    ) -> bool {
        let Some(mut round) = self.server_mut(client.id).round.take() else {
            return false;
        };
        let reads = round.reads.iter_mut();
        for ((read, answer), batch) in reads.zip(answers).zip(&client.batches) {
            let outcome = self.take(&client, read, answer, (round.now, now), batch);
            round.outcome = round.outcome.max(outcome);
        }
        round.reads.retain(|read| !read.is_over);
        if round.outcome == Round::Aborted {
            round.reads.clear();
            round.due.clear();
        }
        self.server_mut(client.id).round = Some(round);
        self.ask(client)
    }

    fn is_large(&self) -> bool {
        self.pipeline.store().series_len() > SMALL_FLEET_SERIES
    }

    /// Whether a round queries the signal. A failed signal waits for its retry, profiling
    /// fields are read only if devices need them, and signals of a large fleet that hardly
    /// change are not read in every round.
    fn is_due(&self, id: PrometheusId, spec: &SignalSpec, now: Timestamp) -> bool {
        let server = self.server(id);
        let retry = server.retries.get(&spec.id);
        if retry.is_some_and(|pace| pace.due() > self.started.elapsed()) {
            return false;
        }
        let rarely = self.is_large() && spec.unit.hardly_changes();
        self.pipeline.is_wanted(id, spec.id, now)
            && (!rarely || server.rounds.is_multiple_of(HARDLY_CHANGING_EVERY))
    }

    /// Sends the next queries of a round: the next parts of the current signals, or else
    /// the next signals. Without any, the round ends. Returns whether it ended.
    fn ask(&mut self, client: Client) -> bool {
        let id = client.id;
        let Some(mut round) = self.server_mut(id).round.take() else {
            return false;
        };
        if round.reads.is_empty() {
            self.choose(&mut round);
        }
        if round.reads.is_empty() {
            self.end(client, round.outcome);
            return true;
        }
        let asked = round.reads.clone();
        self.running.spawn(fetch(client, asked, round.is_combined));
        self.server_mut(id).round = Some(round);
        false
    }

    /// Chooses the signals to query next. In a small fleet these are all signals whose
    /// queries differ only in the metric name.
    fn choose(&self, round: &mut Progress) {
        let Some(first) = round.due.pop_front() else {
            return;
        };
        let is_large = self.is_large();
        let most = match (is_large, round.accepts_combined) {
            (true, _) => SIDE_BY_SIDE,
            (false, true) => usize::MAX,
            (false, false) => 1,
        };
        round.reads.push(first);
        for read in std::mem::take(&mut round.due) {
            let is_next = is_large || read.is_like(&round.reads[0]);
            match is_next && round.reads.len() < most {
                true => round.reads.push(read),
                false => round.due.push_back(read),
            }
        }
        round.is_combined = !is_large && round.reads.len() > 1;
    }

    /// The store refused one query for several signals: continues with a query for each signal.
    pub(super) fn refused(&mut self, client: Client) -> bool {
        if let Some(round) = &mut self.server_mut(client.id).round {
            round.accepts_combined = false;
            for read in round.reads.drain(..).rev() {
                round.due.push_front(read);
            }
        }
        self.ask(client)
    }

    /// Ends a round, and starts waiting for the next one.
    fn end(&mut self, client: Client, outcome: Round) {
        let elapsed = self.started.elapsed();
        self.pipeline.end_round(client.id);
        let server = self.server_mut(client.id);
        server.last = Some(outcome);
        server.rounds += u64::from(outcome != Round::Aborted);
        self.note_emptiness();
        let interval = self.interval(client.id);
        let pace = &mut self.server_mut(client.id).pace;
        pace.set_interval(interval);
        match outcome {
            Round::Complete | Round::Partial => pace.succeeded(elapsed),
            Round::Aborted => pace.failed(elapsed, clock::jitter()),
        }
        self.wait(client);
    }

    fn take(
        &mut self,
        client: &Client,
        read: &mut SignalRead,
        Answered { took, outcome }: Answered,
        (at, now): (Timestamp, Timestamp),
        batch: &Batch,
    ) -> Round {
        let spec = &read.spec;
        match outcome {
            Ok(fetched) => {
                self.part_answered(client, read, &fetched, (took, at), batch);
                if read.is_over {
                    self.all_answered(client, read, (at, now));
                }
                Round::Complete
            }
            Err(error) => match read.shard.halved() {
                Some(half) if error.cause() == Cause::Size => {
                    read.shard = half;
                    let signal = &spec.name;
                    tracing::info!(signal, "{error}; it is queried in smaller parts");
                    Round::Complete
                }
                _ => {
                    read.is_over = true;
                    self.failed(client, spec, &error, (took, now))
                }
            },
        }
    }

    fn part_answered(
        &mut self,
        client: &Client,
        read: &mut SignalRead,
        fetched: &Fetched,
        (took, at): (Duration, Timestamp),
        batch: &Batch,
    ) {
        let report = self.pipeline.take_part(batch, at);
        if !read.shard.is_rest() {
            read.largest = read.largest.max(fetched.bytes);
        }
        let server = &mut self.servers[usize::from(client.id.0)];
        server.set_skew(fetched.clock_skew);
        let metrics = &self.wiring.telemetry.metrics;
        measure::answered(metrics, (&server.key, &read.spec.name), took, &report);
        log_report(&read.spec, &report);
        match read.shard.next() {
            Some(next) => read.shard = next,
            None => read.is_over = true,
        }
    }

    /// Records that all parts of a signal were answered, so that it no longer fails.
    fn all_answered(
        &mut self,
        client: &Client,
        read: &SignalRead,
        (at, now): (Timestamp, Timestamp),
    ) {
        let spec = &read.spec;
        self.pipeline.answered(client.id, spec.id, at);
        let server = &mut self.servers[usize::from(client.id.0)];
        server.read(read, now);
        if server.retries.remove(&spec.id).is_some() {
            // The store has recovered.
            server.retries.clear();
        }
        let metrics = &self.wiring.telemetry.metrics;
        measure::read(metrics, (&server.key, &spec.name), at);
        let source = client.source.address();
        if let Some(healed) = server.failures.succeeded(spec.id, now) {
            tracing::info!(source, "{healed}");
        }
    }

    fn failed(
        &mut self,
        client: &Client,
        spec: &SignalSpec,
        error: &Error,
        (took, now): (Duration, Timestamp),
    ) -> Round {
        if error.cause().is_limit() {
            self.pipeline.refused(client.id, spec.id);
        }
        let (elapsed, interval) = (self.started.elapsed(), self.interval(client.id));
        let server = &mut self.servers[usize::from(client.id.0)];
        let kind = error.kind();
        if error.cause() == Cause::Time && kind != ErrorKind::Timeout {
            server.too_slow(spec.id, now);
        }
        // If no address answers, all signals are retried together. A signal whose query
        // takes too long is retried separately.
        if !is_of_source(error) {
            let retry = server.retries.entry(spec.id);
            let retry = retry.or_insert_with(|| Pace::new(interval, elapsed, 0.0));
            retry.failed(elapsed, clock::jitter());
        }
        let metrics = &self.wiring.telemetry.metrics;
        measure::ended(metrics, (&server.key, &spec.name), kind.label(), took);
        if server.failures.failed(spec.id, error, now) {
            let source = client.source.address();
            tracing::warn!(
                source,
                "{error}; polling continues; the last known values expire at their usual time"
            );
        }
        match is_fatal(error) {
            true => Round::Aborted,
            false => Round::Partial,
        }
    }
}

/// Queries the next parts of signals.
async fn fetch(mut client: Client, asked: Vec<SignalRead>, is_combined: bool) -> Step {
    let queries = asked.iter().map(|read| SignalQuery {
        spec: &read.spec,
        devices: read.devices,
        at: read.at,
        range: read.range,
        shard: read.shard,
    });
    let queries: Vec<SignalQuery<'_>> = queries.collect();
    let empty = || Batch::new(SignalId::MEM_COPY_UTIL, bytes::Bytes::new());
    client.batches.resize_with(queries.len(), empty);
    for batch in &mut client.batches {
        batch.prometheus = client.id;
    }
    let now = clock::now();
    let batches = &mut client.batches;
    let source = &mut client.source;
    let answers = match is_combined {
        true => source.fetch_combined(&queries, now, batches).await,
        false => Some(source.fetch(&queries, now, batches).await),
    };
    match answers {
        Some(answers) => Step::Answered(client, now, answers),
        None => Step::Refused(client),
    }
}

impl Server {
    fn set_skew(&mut self, skew_ms: Option<i64>) {
        let skew_ms = skew_ms.unwrap_or(0);
        if (skew_ms - self.skew_ms).abs() >= SKEW_MIN_MS {
            self.skew_ms = if skew_ms.abs() < SKEW_MIN_MS {
                0
            } else {
                skew_ms
            };
        }
    }
}

fn log_report(spec: &SignalSpec, report: &IntakeReport) {
    if report.refused > 0 {
        tracing::error!(
            signal = spec.name,
            refused = report.refused,
            "too many series: new ones are rejected; narrow the query with prometheus.matchers"
        );
    }
}

/// Whether a failure concerns the source as a whole, so that a query of another signal
/// would only wait for as long again.
fn is_fatal(error: &Error) -> bool {
    is_of_source(error) || error.kind() == ErrorKind::Timeout
}

/// Whether a failure is independent of the signal queried.
fn is_of_source(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unreachable | ErrorKind::Tls | ErrorKind::ClockSkew
    )
}
