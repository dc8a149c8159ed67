//! Findings about the store: its delay, its clock, its clusters.

use std::collections::BTreeMap;

use super::super::Finding;
use super::super::codes::{GM302, GM303, GM304};
use super::super::names::listed;
use super::{PROMETHEUS, PolledSource, of_job, span};
use gpu_metrics::targets::{TargetId, TargetView};

/// Milliseconds by which samples may be late. Samples of a Prometheus that scrapes are
/// late by one poll, samples of remote write by some seconds more.
const LATE_MS: i64 = 20_000;

/// Milliseconds by which clocks may differ, beside the scrape interval over which the
/// scrapes of a job are spread. Clocks that NTP sets differ by far less.
const CLOCK_MS: i64 = 10_000;

/// Jobs whose samples are late.
pub(super) fn lag(seen: PolledSource<'_>) -> Vec<Finding> {
    let frame = seen.snapshot.frame();
    let mut late: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, target) in seen.heard_targets() {
        let lag_ms = frame.view().lag_ms(target);
        if lag_ms >= LATE_MS.max(target.scrape_ms) {
            let known = late.entry(seen.job(target)).or_default();
            *known = lag_ms.max(*known);
        }
    }
    let found = late.into_iter().map(|(job, lag_ms)| {
        let message = format!(
            "samples can be read {} after they were taken: values are late by this time, and so are the decisions of autoscalers",
            span(lag_ms)
        );
        let remedy = "check the components between scrape and store: queues of remote write, intervals of a collector, caches of a query front end";
        Finding::new(&GM302, of_job(job), message, remedy)
    });
    found.collect()
}

/// Findings about the difference of Prometheus' clock from the server's, and about targets
/// whose times differ from those of other targets of their job.
pub(super) fn clocks(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if seen.skew_ms != 0 {
        let way = if seen.skew_ms > 0 {
            "ahead of"
        } else {
            "behind"
        };
        let message = format!(
            "its clock is {} {way} this server's: values are late by this time, or expire earlier",
            span(seen.skew_ms.abs())
        );
        let remedy = "set both clocks by NTP";
        found.push(Finding::new(&GM303, PROMETHEUS, message, remedy));
    }
    let mut off: BTreeMap<(&str, &str), (Vec<TargetId>, i64)> = BTreeMap::new();
    for (id, target) in seen.heard_targets() {
        let (way, by_ms) = distance(seen, target);
        if by_ms > target.scrape_ms + CLOCK_MS {
            let (ids, most_ms) = off.entry((seen.job(target), way)).or_default();
            ids.push(id);
            *most_ms = by_ms.max(*most_ms);
        }
    }
    let targets = off.into_iter().map(|((job, way), (ids, most_ms))| {
        let message = format!(
            "the times of samples of {} are up to {} {way} those of the other targets: their windows end at a different time",
            listed(ids.into_iter().map(|id| seen.instance(id))),
            span(most_ms)
        );
        let remedy = "set the clocks there by NTP; if exporters or agents write the timestamps, set honor_timestamps: false for the scrape";
        Finding::new(&GM303, of_job(job), message, remedy)
    });
    found.extend(targets);
    found
}

/// Milliseconds by which the newest sample of a target is ahead of now, or else by which
/// its samples are later than usual, with the direction.
fn distance(seen: PolledSource<'_>, target: &TargetView) -> (&'static str, i64) {
    let now = seen.snapshot.frame().now();
    let ahead_ms = target.newest.millis() - now.millis();
    if ahead_ms > target.own_lateness_ms {
        ("ahead of", ahead_ms)
    } else {
        ("behind", target.own_lateness_ms)
    }
}

/// Several clusters in one store, by the names of clusters or of nodes.
pub(super) fn clusters(seen: PolledSource<'_>) -> Option<Finding> {
    let layout = seen.snapshot.layout();
    let (names, nodes) = (layout.several_clusters(), layout.foreign_nodes());
    (!names.is_empty() || !nodes.is_empty()).then(|| {
        let named = match names {
            [] => String::new(),
            names => format!(" ({})", listed(names)),
        };
        let strange = match nodes {
            [] => String::new(),
            nodes => format!(
                ": {} are not nodes of this cluster, and the pods that their series name run on other nodes",
                listed(nodes)
            ),
        };
        let message = format!("the store holds series of several clusters{named}{strange}");
        let remedy = "set prometheus.matchers to the labels of this server's cluster";
        Finding::new(&GM304, PROMETHEUS, message, remedy)
    })
}
