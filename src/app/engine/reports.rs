//! The engine's reports about its data: findings, metrics, and failures of servers.

use std::time::Duration;

use super::super::{finding_reports, measure};
use super::server::Server;
use super::{Engine, NO_SERIES, Round};
use crate::telemetry::metrics::catalog;
use apimachinery::time::Timestamp;
use findings::codes::OF_DATA;
use findings::{Finding, Report, source};
use gpu_metrics::snapshot::Snapshot;

impl Engine {
    /// Findings about the data; `None` before the first round.
    pub(super) fn judge(&self, snapshot: &Snapshot) -> Option<Report> {
        let servers = || self.servers.iter();
        let mut troubles = servers().filter_map(|server| self.trouble_of(server));
        if servers().all(Server::fails)
            && let Some(trouble) = troubles.next()
        {
            return Some(source::alone(trouble, "Prometheus does not answer"));
        }
        if self.is_empty {
            return Some(source::without_series(NO_SERIES));
        }
        let down = servers().filter(|it| it.fails()).map(|it| it.id);
        let failing = servers().flat_map(|server| server.failures.failing_alone());
        let seen = source::PolledSource {
            snapshot,
            store: self.pipeline.store(),
            failing: &failing.collect(),
            down: &down.collect(),
        };
        let is_polled = servers().any(|server| server.rounds > 0);
        is_polled.then(|| source::check(seen, troubles))
    }

    /// The finding that queries to a server fail; `None`: they succeed.
    fn trouble_of(&self, server: &Server) -> Option<Finding> {
        let (error, since) = server.failures.trouble()?;
        let failing = server.failures.failing_alone();
        let fields = self.signals.iter().filter(|it| failing.contains(&it.id));
        let fields = fields.map(|it| it.name.as_str());
        let (how, remedy) = error.finding();
        let said = (&*how, remedy);
        Some(source::unanswered(server.name(), fields, since, said))
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
        self.metrics()
            .observe(&catalog::SNAPSHOT_SECONDS, &[], took);
        measure::published(self.metrics(), snapshot, now, series);
        let Some(report) = report else { return };
        // A replica that has just started has not yet measured the delay of the store.
        let is_seen = report.skipped.is_empty() && self.is_ready(now);
        finding_reports::count(self.metrics(), OF_DATA, &report.findings, |_| is_seen);
        // Until then another check and other log lines report the state.
        if is_seen {
            let said = self.said.say(&report.findings);
            let is_odd = !said.is_empty();
            self.wiring.data_check.show(is_odd.then(|| said.join("; ")));
        }
    }

    /// Why values may be missing, for clients: the newest reason of a failing source,
    /// without its address and message, or that it has no series.
    pub(super) fn trouble(&self) -> Option<String> {
        let mut troubles = self.servers.iter();
        let trouble = troubles.find_map(|server| {
            let (error, since) = server.failures.trouble()?;
            Some(format!(
                "queries to {} have failed since {} ({}); see the server's log",
                server.name(),
                since.whole_second().date(),
                error.kind().label()
            ))
        });
        trouble.or_else(|| self.is_empty.then(|| NO_SERIES.to_owned()))
    }

    /// Records whether there are series. They count as missing only after all servers have
    /// answered for all signals.
    pub(super) fn note_emptiness(&mut self) {
        let is_empty = self.pipeline.store().series_len() == 0;
        let is_open =
            |it: &Server| it.last != Some(Round::Complete) || it.failures.trouble().is_some();
        if is_empty && self.servers.iter().any(is_open) {
            return;
        }
        if std::mem::replace(&mut self.is_empty, is_empty) != is_empty {
            match is_empty {
                true => tracing::warn!("{NO_SERIES}"),
                false => tracing::info!("DCGM series are found in Prometheus now"),
            }
        }
    }
}
