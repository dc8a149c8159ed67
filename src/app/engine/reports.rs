//! The engine's reports about its data: findings, metrics, and failed queries.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::finding_reports;
use super::telemetry::show_snapshot;
use super::{Engine, Round};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use findings::codes::OF_DATA;
use findings::{Finding, Report, source};
use gpu_metrics::dcgm::intake::IntakeReport;
use gpu_metrics::signal::{SignalId, SignalSpec};
use gpu_metrics::snapshot::Snapshot;
use prometheus_source::Error;

/// The message for a Prometheus without DCGM series.
const NO_SERIES: &str = "no DCGM series found in Prometheus: check that dcgm-exporter runs and is \
                         scraped, and prometheus.matchers; without GPUs, write gpu: {enabled: false}";

/// Failed queries. The texts of two failures of a kind may differ.
#[derive(Debug)]
pub(super) struct Failure {
    error: Error,
    /// The signals whose queries fail while others are answered; empty: all fail.
    fields: BTreeSet<SignalId>,
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.error.kind() == other.error.kind() && self.fields == other.fields
    }
}

impl Engine {
    /// Records how a round ended, and logs a change.
    pub(super) fn note_failure(&mut self, round: Round) {
        let is_partial = !round.answered.is_empty();
        let fields = if is_partial {
            round.failed
        } else {
            BTreeSet::new()
        };
        let failure = round.error.map(|error| Failure { error, fields });
        let Some(former) = self.condition.set(failure, round.now) else {
            return;
        };
        let source = self.prometheus.address();
        match (self.condition.state().reason(), former.since()) {
            (Some(Failure { error, .. }), _) => tracing::warn!(
                source,
                "{error}; polling continues; the last known values expire at their usual time"
            ),
            (None, Some(since)) => {
                let took = format_duration(round.now.since(since));
                tracing::info!(source, "answers again after {took}");
            }
            (None, None) => {}
        }
    }

    /// Records whether there are series. They count as missing only after all signals were
    /// answered.
    pub(super) fn note_emptiness(&mut self) {
        let is_empty = self.pipeline.store().series_len() == 0;
        if is_empty && self.condition.state().reason().is_some() {
            return;
        }
        let changed = self.emptiness.set(is_empty.then_some(()), ());
        match (changed, is_empty) {
            (Some(_), true) => tracing::warn!("{NO_SERIES}"),
            (Some(_), false) => tracing::info!("DCGM series are found in Prometheus now"),
            (None, _) => {}
        }
    }

    /// Findings about the data; `None` before the first round.
    pub(super) fn judge(&self, snapshot: &Snapshot) -> Option<Report> {
        let trouble = self.failure_finding();
        let failing = match self.condition.state().reason() {
            Some(failure) if failure.fields.is_empty() => {
                return trouble.map(|it| source::alone(it, "Prometheus does not answer"));
            }
            Some(failure) => failure.fields.clone(),
            None => BTreeSet::new(),
        };
        if self.emptiness.state().reason().is_some() {
            return Some(source::without_series(NO_SERIES));
        }
        let seen = source::PolledSource {
            snapshot,
            store: self.pipeline.store(),
            failing: &failing,
            skew_ms: self.skew_ms,
        };
        self.has_polled.then(|| source::check(seen, trouble))
    }

    /// The finding that queries fail; `None`: they succeed.
    fn failure_finding(&self) -> Option<Finding> {
        let state = self.condition.state();
        let (failure, since) = (state.reason()?, state.since()?);
        let fields = self
            .signals
            .iter()
            .filter(|it| failure.fields.contains(&it.id));
        let fields = fields.map(|it| it.name.as_str());
        let (how, remedy) = failure.error.finding();
        let said = (&*how, remedy);
        Some(source::unanswered(source::PROMETHEUS, fields, since, said))
    }

    /// Updates the metrics and checks of the engine in force.
    pub(super) fn tell(
        &mut self,
        snapshot: &Snapshot,
        now: Timestamp,
        took: Duration,
        report: &Option<Report>,
    ) {
        let series = self.pipeline.store().series_len();
        let metrics = self.metrics();
        metrics.snapshot_duration_seconds.observe([], took);
        show_snapshot(metrics, snapshot, now, series);
        let Some(report) = report else { return };
        // A replica that has just started has not yet measured the delay of the store.
        let is_seen = report.skipped.is_empty() && self.is_ready(now);
        finding_reports::count(self.metrics(), OF_DATA, &report.findings, |_| is_seen);
        // Until then another check and other log lines report the state.
        if is_seen {
            let said = self.said.say(&report.findings);
            let is_odd = !said.is_empty();
            self.wiring.data_check.set(is_odd.then(|| said.join("; ")));
        }
    }

    /// Why values may be missing, for clients: the reason of a failure, without the address
    /// and message, or that there are no series.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.condition.state();
        let Some((failure, since)) = state.reason().zip(state.since()) else {
            return self
                .emptiness
                .state()
                .reason()
                .map(|()| NO_SERIES.to_owned());
        };
        let (since, kind) = (since.whole_second().date(), failure.error.kind().label());
        let name = source::PROMETHEUS;
        Some(format!(
            "queries to {name} have failed since {since} ({kind}); see the server's log"
        ))
    }
}

/// Logs that series were rejected because there are too many.
pub(super) fn log_refused(spec: &SignalSpec, report: &IntakeReport) {
    if report.refused > 0 {
        tracing::error!(
            signal = spec.name,
            refused = report.refused,
            "too many series: new ones are rejected; narrow the query with prometheus.matchers"
        );
    }
}
