//! Findings about the data: Prometheus, the exporters, the labels of their series.
//!
//! The server returns them to users with the right to list findings in the whole cluster.
//! They name nodes, jobs and GPUs, but no pods and namespaces.

mod devices;
mod exporters;
mod stores;

use std::collections::BTreeSet;
use std::time::Duration;

use super::codes::{Code, GM301, GM401, OF_DATA};
use super::names::listed;
use super::{Finding, Report, Skipped};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::grid::RowId;
use gpu_metrics::layout::{Attribution, RowFacts};
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;
use gpu_metrics::store::Store;
use gpu_metrics::targets::{SourceView, TargetId, TargetView};

/// The object of a finding that is about no particular object.
pub const PROMETHEUS: &str = "Prometheus";
const EXPORTERS: &str = "dcgm-exporter";
const GPUS: &str = "GPUs";

/// The state of the data at one time.
#[derive(Clone, Copy, Debug)]
pub struct PolledSource<'s> {
    /// The values in force, and the readings behind them.
    pub snapshot: &'s Snapshot,
    /// The same samples, by job and target.
    pub store: &'s Store,
    /// Signals whose queries fail: their series may exist although they are absent here.
    pub failing: &'s BTreeSet<SignalId>,
    /// The clock of Prometheus minus the server's, in milliseconds; 0: they agree.
    pub skew_ms: i64,
}

/// Findings about the data that is read, and `troubles`, the findings about data that
/// cannot be read.
#[must_use]
pub fn check(seen: PolledSource<'_>, troubles: impl IntoIterator<Item = Finding>) -> Report {
    let mut report = Report {
        looked: true,
        ..Report::default()
    };
    let found = &mut report.findings;
    found.extend(stores::lag(seen));
    found.extend(stores::clocks(seen));
    found.extend(stores::clusters(seen));
    found.extend(devices::check(seen));
    found.extend(exporters::check(seen));
    found.extend(troubles);
    report.make_plain();
    report.sort();
    report
}

/// The finding that queries to a server have failed since a time: for these `fields`, or
/// for all if it is empty.
pub fn unanswered<'n>(
    server: &str,
    fields: impl IntoIterator<Item = &'n str>,
    since: Timestamp,
    (how, remedy): (&str, &str),
) -> Finding {
    let fields = listed(fields);
    let (of, others) = match fields.is_empty() {
        true => (String::new(), ""),
        false => (format!(" for {fields}"), "; others are answered"),
    };
    let since = since.whole_second().date();
    let message = format!("queries{of} have failed since {since} ({how}){others}");
    Finding::new(&GM301, server, message, remedy)
}

/// The report if Prometheus answers but has no GPU series; `why` is the message.
#[must_use]
pub fn without_series(why: &str) -> Report {
    let remedy = "search for them: count by (__name__, job) ({__name__=~\"(?i)dcgm.*\"})";
    let finding = Finding::new(&GM401, PROMETHEUS, why, remedy);
    alone(finding, "there are no series")
}

/// A report with this finding only: for `reason`, nothing else can be checked.
#[must_use]
pub fn alone(finding: Finding, reason: &str) -> Report {
    Report {
        findings: vec![finding],
        skipped: [unseen(reason, "correct that first")].into(),
        looked: true,
    }
}

/// The checks of the data with these codes: `what exporters report (GM301 to GM413)`.
#[must_use]
pub fn checks_of(codes: &[&Code]) -> String {
    let ends = [codes.first(), codes.last()].map(|code| code.map_or("", |it| it.id));
    format!("what exporters report ({})", ends.join(" to "))
}

/// The checks that are skipped without data: all but GM301, which reports this state.
#[must_use]
pub fn unseen_checks() -> String {
    checks_of(&OF_DATA[1..])
}

/// The skipped checks if the data cannot be read.
#[must_use]
pub fn unseen(reason: &str, remedy: &str) -> Skipped {
    Skipped::new(unseen_checks(), reason, remedy).of(OF_DATA)
}

/// A row that is reported now, with the target of its newest sample.
#[derive(Clone, Copy)]
struct Current<'s> {
    facts: &'s RowFacts,
    target: &'s TargetView,
}

impl<'s> PolledSource<'s> {
    /// Targets that have samples and are not silent.
    fn heard_targets(self) -> impl Iterator<Item = (TargetId, &'s TargetView)> {
        let targets = self.targets();
        targets.filter(|(_, target)| !target.silent && target.newest > Timestamp::MIN)
    }

    fn targets(self) -> impl Iterator<Item = (TargetId, &'s TargetView)> {
        let targets = &self.snapshot.frame().view().targets;
        (0..).map(TargetId).zip(targets)
    }

    /// A row, if it belongs to this cluster and is reported now.
    fn current(self, row: RowId) -> Option<Current<'s>> {
        let frame = self.snapshot.frame();
        let facts = self.snapshot.layout().fact(row)?;
        let targets = facts.row.targets.iter();
        let heard = targets.filter_map(|id| frame.target(*id).filter(|target| !target.silent));
        let target = heard.max_by_key(|target| target.newest)?;
        let newest = frame.sample_times(row)?.newest;
        let is_current = target.newest.millis() - newest.millis() < target.fresh_ms;
        (is_current && facts.attribution != Attribution::Foreign)
            .then_some(Current { facts, target })
    }

    fn source_of(self, target: &TargetView) -> Option<&'s SourceView> {
        let sources = &self.snapshot.frame().view().sources;
        sources.get(usize::from(target.source))
    }

    /// The name of a target's job.
    fn job(self, target: &TargetView) -> &'s str {
        self.source_of(target).map_or("?", |source| &source.job)
    }

    fn instance(self, id: TargetId) -> &'s str {
        self.store.targets().instance(id).unwrap_or("?")
    }
}

/// `Job dcgm`.
fn of_job(name: &str) -> String {
    format!("Job {name}")
}

fn span(ms: i64) -> String {
    let secs = u64::try_from((ms + 500).div_euclid(1000)).unwrap_or(0);
    format_duration(Duration::from_secs(secs))
}
