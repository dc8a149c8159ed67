//! One round of queries: every signal that is due, all at one time.

use super::super::measure;
use super::{Engine, Round, SMALL_FLEET_SERIES};
use apimachinery::time::Timestamp;
use cluster_state::clock;
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::intake::IntakeReport;
use gpu_metrics::signal::{SignalId, SignalSpec, Unit};
use prometheus_source::parts::Parts;
use prometheus_source::{Answered, DeviceSelection, Error, ErrorKind, Limit, SignalQuery};

/// Polls from one query of framebuffer fields to the next in a large fleet: these fields
/// hardly change. A poll is S, and a reading counts for three of them, so a larger number
/// would leave the field without a reading before the next query.
const FRAMEBUFFER_EVERY: u64 = 2;

/// Parallel queries in a large fleet: one is received while the store evaluates the
/// other.
const SIDE_BY_SIDE: usize = 2;

/// Smaller differences of the clocks are within the resolution of the `Date` header.
const SKEW_MIN_MS: i64 = 2_000;

/// A query's reads of one signal in a round.
struct SignalRead<'a> {
    spec: &'a SignalSpec,
    parts: Parts,
    is_over: bool,
}

impl Engine {
    /// Queries every signal that is due once, all at one time.
    pub(super) async fn round(&mut self) -> Round {
        let at = self.now();
        let mut round = Round::Complete;
        for spec in &self.signals {
            if !self.pipeline.is_wanted(spec.id, at) {
                measure::rests(self.metrics(), &spec.name);
            }
        }
        let due = |spec: &&SignalSpec| self.is_due(spec, at);
        let due: Vec<SignalSpec> = self.signals.iter().filter(due).cloned().collect();
        for specs in due.chunks(self.side_by_side()) {
            round = round.max(self.ask(specs, at).await);
            if round == Round::Aborted {
                return round;
            }
        }
        self.rounds += 1;
        self.note_emptiness(round);
        round
    }

    fn is_large(&self) -> bool {
        self.pipeline.store().series_len() > SMALL_FLEET_SERIES
    }

    fn side_by_side(&self) -> usize {
        if self.is_large() { SIDE_BY_SIDE } else { 1 }
    }

    /// Whether this round queries the signal. A failed signal waits for its retry,
    /// profiling fields are read where devices need them, and a large fleet's framebuffer
    /// fields only now and then.
    fn is_due(&self, spec: &SignalSpec, at: Timestamp) -> bool {
        if self.retries.is_left_alone(spec.id, self.started.elapsed()) {
            return false;
        }
        let slow = self.is_large() && spec.unit == Unit::Mebibytes;
        self.pipeline.is_wanted(spec.id, at)
            && (!slow || self.rounds.is_multiple_of(FRAMEBUFFER_EVERY))
    }

    /// Queries the signals in parallel and takes in the answers; a query that is too
    /// large is split by time.
    async fn ask(&mut self, specs: &[SignalSpec], at: Timestamp) -> Round {
        let read = |spec| SignalRead {
            spec,
            parts: Parts::whole(at, self.pipeline.range(spec.id, at)),
            is_over: false,
        };
        let mut reads: Vec<SignalRead<'_>> = specs.iter().map(read).collect();
        let mut round = Round::Complete;
        while !reads.is_empty() && round < Round::Aborted {
            round = round.max(self.ask_parts(&mut reads, at).await);
            reads.retain(|read| !read.is_over);
        }
        round
    }

    /// Queries the next part of each signal.
    async fn ask_parts(&mut self, reads: &mut [SignalRead<'_>], at: Timestamp) -> Round {
        let queries: Vec<SignalQuery<'_>> = reads.iter().map(|read| self.query(read, at)).collect();
        let mut batches = std::mem::take(&mut self.batches);
        let empty = || Batch::new(SignalId::MEM_COPY_UTIL, bytes::Bytes::new());
        batches.resize_with(batches.len().max(reads.len()), empty);
        let now = clock::now();
        let answers = self.source.fetch(&queries, now, &mut batches).await;
        let mut round = Round::Complete;
        for ((read, answer), batch) in reads.iter_mut().zip(answers).zip(&batches) {
            round = round.max(self.take(read, answer, (at, now), batch));
        }
        self.batches = batches;
        round
    }

    /// Profiling fields leave whole GPUs out where only MIG instances need them; every
    /// ten minutes a query includes all, to see whether others do.
    fn query<'a>(&self, read: &SignalRead<'a>, at: Timestamp) -> SignalQuery<'a> {
        let spec = read.spec;
        let devices = if self.pipeline.is_of_mig_alone(spec.id, at) {
            DeviceSelection::Mig
        } else {
            DeviceSelection::All
        };
        let (at, range) = read.parts.next();
        SignalQuery {
            spec,
            devices,
            at,
            range,
        }
    }

    fn take(
        &mut self,
        read: &mut SignalRead<'_>,
        Answered { took, outcome }: Answered,
        (at, now): (Timestamp, Timestamp),
        batch: &Batch,
    ) -> Round {
        let spec = read.spec;
        match outcome {
            Ok(fetched) => {
                read.is_over = read.parts.is_last();
                let report = match read.is_over {
                    true => self.pipeline.take(batch, at),
                    false => self.pipeline.take_part(batch, at),
                };
                read.parts.answered();
                measure::answered(self.metrics(), &spec.name, (took, at), &report);
                self.log_report(spec, &report);
                self.retries.answered(spec.id);
                self.set_skew(fetched.clock_skew);
                let source = self.source.address();
                for healed in self.journal.succeeded(spec.id, now) {
                    tracing::info!(source, "{healed}");
                }
                Round::Complete
            }
            Err(error) if error.limit() == Some(Limit::Size) && read.parts.halve() => {
                let signal = &spec.name;
                tracing::info!(signal, "{error}; the period is queried in shorter parts");
                Round::Complete
            }
            Err(error) => {
                read.is_over = true;
                if error.limit().is_some() {
                    self.pipeline.refused(spec.id);
                }
                // Where no address answers, all signals are asked for again together; one
                // that takes too long waits alone.
                if is_of_source(&error) {
                    self.retries.aborted();
                } else {
                    let (now, interval) = (self.started.elapsed(), self.interval());
                    self.retries.failed(spec.id, interval, now, clock::jitter());
                }
                let kind = error.kind().label();
                measure::ended(self.metrics(), &spec.name, kind, took);
                if self.journal.failed(spec.id, &error, now) {
                    let source = self.source.address();
                    tracing::warn!(
                        source,
                        "{error}; polling continues; the last known values expire at their usual time"
                    );
                }
                match is_fatal(&error) {
                    true => Round::Aborted,
                    false => Round::Partial,
                }
            }
        }
    }

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

    fn log_report(&self, spec: &SignalSpec, report: &IntakeReport) {
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
                "too many series: new ones are rejected; narrow the query with prometheus.matchers"
            );
        }
    }
}

/// Whether a failure concerns the source as a whole: a query of another signal would only
/// wait as long again.
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
