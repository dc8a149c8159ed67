//! Findings about the store and the scrapes: their delay, clocks, clusters, units.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Finding;
use super::super::codes::{GM302, GM303, GM304, GM413};
use super::super::names::listed;
use super::{PROMETHEUS, PolledSource, span};

/// Milliseconds by which samples may be late. Samples of a Prometheus that scrapes are
/// late by one poll, samples of remote write by some seconds more.
const LATE_MS: i64 = 20_000;

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut found = late(seen);
    found.extend(clock(seen));
    found.extend(clusters(seen));
    found.extend(units(seen));
    found
}

/// Jobs whose samples are late.
fn late(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut late: BTreeMap<&str, i64> = BTreeMap::new();
    for (device, times) in seen.devices() {
        let line = seen.snapshot.newest_line(device);
        let line = line.filter(|_| times.lag_ms >= LATE_MS.max(times.scrape_ms));
        if let Some(line) = line {
            let known = late.entry(&line.job).or_default();
            *known = times.lag_ms.max(*known);
        }
    }
    let found = late.into_iter().map(|(job, lag_ms)| {
        let message = format!(
            "samples can be read {} after the time that they have: values are late by this time, and so are the decisions of autoscalers",
            span(lag_ms)
        );
        Finding::new(&GM302, format!("Job {job}"), message)
    });
    found.collect()
}

/// The difference of Prometheus' clock from the server's.
fn clock(seen: PolledSource<'_>) -> Option<Finding> {
    let message = format!(
        "its clock is {} off this server's: values are late by this time, or expire earlier",
        span(seen.skew_ms.abs())
    );
    (seen.skew_ms != 0).then(|| Finding::new(&GM303, PROMETHEUS, message))
}

/// Several clusters in one store, by the names of clusters or of nodes. Labels of pods, such as
/// `tenant`, may have the names of cluster labels: no series is of another cluster then.
fn clusters(seen: PolledSource<'_>) -> Option<Finding> {
    let layout = &seen.snapshot.layout;
    let mut lines = layout.lines.iter().zip(&layout.device_of);
    let is_any_foreign = lines.any(|(line, device)| line.is_some() && *device == u32::MAX);
    let names = layout.several_clusters.iter().filter(|_| is_any_foreign);
    let mut foreign = names.chain(&layout.foreign_nodes).peekable();
    foreign.peek()?;
    let message = format!(
        "the store holds series of several clusters, by labels or by nodes that this cluster does not have ({})",
        listed(foreign)
    );
    Some(Finding::new(&GM304, PROMETHEUS, message))
}

/// Jobs whose utilisation arrives in percent and as a ratio.
fn units(seen: PolledSource<'_>) -> Vec<Finding> {
    let frame = &seen.snapshot.frame;
    let sources = frame.sources.all();
    let unknown = frame.unknown_units.iter();
    let sources = unknown.filter_map(|(id, ..)| sources.get(usize::from(id.0)));
    let jobs: BTreeSet<&str> = sources.map(|source| &*source.job).collect();
    let found = jobs.into_iter().map(|job| {
        let message = "the unit of utilisation is unknown, because values between 0 and 1 arrive where percents are expected: readings are treated as unknown";
        Finding::new(&GM413, format!("Job {job}"), message)
    });
    found.collect()
}
