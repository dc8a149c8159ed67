//! Findings about the data: Prometheus, the scrape jobs, the GPUs and the labels of their series.
//!
//! The server returns them to users with the right to list findings in the whole cluster.
//! They name nodes, jobs and GPUs, but no pods and namespaces.

mod devices;
mod missing;
mod stores;

use std::collections::BTreeSet;
use std::time::Duration;

use super::codes::{GM301, GM401, OF_DATA};
use super::names::listed;
use super::{Finding, Report, Skipped};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::absence::DeviceTimes;
use gpu_metrics::line::Line;
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

/// The object of a finding that is about no particular object.
pub const PROMETHEUS: &str = "Prometheus";
const EXPORTERS: &str = "dcgm-exporter";
const GPUS: &str = "GPUs";

/// The state of the data at one time.
#[derive(Clone, Copy, Debug)]
pub struct PolledSource<'s> {
    /// The values in force, and the readings behind them.
    pub snapshot: &'s Snapshot,
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
    found.extend(stores::check(seen));
    found.extend(devices::check(seen));
    found.extend(missing::check(seen));
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
    Finding::new(&GM301, server, message).with_remedy(remedy)
}

/// The report if Prometheus answers but has no GPU series; `why` is the message.
#[must_use]
pub fn without_series(why: &str) -> Report {
    let finding = Finding::new(&GM401, PROMETHEUS, why);
    alone(finding, "there are no series")
}

/// A report with this finding only: for `reason`, nothing else can be checked.
#[must_use]
pub fn alone(finding: Finding, reason: &str) -> Report {
    Report {
        findings: vec![finding],
        skipped: [unseen(reason, "correct that first")].into(),
        looked: true,
        ..Report::default()
    }
}

/// The subject of the checks of data.
pub const CHECKED: &str = "what exporters report";

/// The skipped checks if the data cannot be read.
#[must_use]
pub fn unseen(reason: &str, remedy: &str) -> Skipped {
    Skipped::new(CHECKED, reason, remedy).of(OF_DATA)
}

/// The check of the data that could not be made.
#[must_use]
pub fn unread(skipped: &BTreeSet<Skipped>) -> Option<&Skipped> {
    skipped.iter().find(|it| it.codes.contains(GM401.id))
}

impl PolledSource<'_> {
    /// The devices that are reported now.
    fn devices(self) -> impl Iterator<Item = (u32, DeviceTimes)> {
        let devices = (0..).take(self.snapshot.layout.devices.len());
        let times = devices.filter_map(move |it| Some((it, self.snapshot.times(it)?)));
        times.filter(|(_, times)| !times.is_silent)
    }
}

/// The name of a scraped target: its address, otherwise its node.
fn place(line: &Line) -> &str {
    let node = || line.nodes.first().map_or("?", |node| node);
    match &*line.instance {
        "" => node(),
        instance => instance,
    }
}

fn span(ms: i64) -> String {
    let secs = u64::try_from((ms + 500).div_euclid(1000)).unwrap_or(0);
    format_duration(Duration::from_secs(secs))
}
