//! What the engine says about its data: findings, and the failure of queries.

use std::collections::BTreeSet;

use super::{Engine, Round};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use findings::{Finding, Report, source};
use gpu_metrics::signal::SignalId;
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
    signals: BTreeSet<SignalId>,
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.error.kind == other.error.kind && self.signals == other.signals
    }
}

impl Engine {
    /// Records how a round ended, and logs a change.
    pub(super) fn note(&mut self, round: Round, now: Timestamp) {
        let signals = match round.is_answered {
            true => round.failed,
            false => BTreeSet::new(),
        };
        let failure = round.error.map(|error| Failure { error, signals });
        let Some(former) = self.failure.set(failure, now) else {
            return;
        };
        let source = self.prometheus.address();
        match (self.failure.state().reason(), former.since()) {
            (Some(Failure { error, .. }), _) => tracing::warn!(
                source,
                "{error}; polling continues; the last known values expire at their usual time"
            ),
            (None, Some(since)) => {
                let took = format_duration(now.since(since));
                tracing::info!(source, "answers again after {took}");
            }
            (None, None) => {}
        }
    }

    /// The findings about the data.
    pub(super) fn report(&self, snapshot: &Snapshot) -> Report {
        let none = BTreeSet::new();
        let failing = self.failure.state().reason().map(|it| &it.signals);
        match (self.failure_finding(), failing) {
            (Some(finding), Some(failing)) if failing.is_empty() => {
                source::alone(finding, "Prometheus does not answer")
            }
            (None, _) if self.pipeline.store().series_len() == 0 => {
                source::without_series(NO_SERIES)
            }
            (finding, failing) => {
                let seen = source::PolledSource {
                    snapshot,
                    failing: failing.unwrap_or(&none),
                    skew_ms: self.skew_ms,
                };
                source::check(seen, finding)
            }
        }
    }

    /// The finding that queries fail; `None`: they succeed.
    fn failure_finding(&self) -> Option<Finding> {
        let state = self.failure.state();
        let (failure, since) = (state.reason()?, state.since()?);
        let signals = self.signals.iter();
        let signals = signals.filter(|it| failure.signals.contains(&it.id));
        let names = signals.map(|it| it.name.as_str());
        let (how, remedy) = failure.error.finding();
        let said = (&*how, remedy);
        Some(source::unanswered(source::PROMETHEUS, names, since, said))
    }
}
