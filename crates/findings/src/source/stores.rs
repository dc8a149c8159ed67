//! Findings about the store and the scrapes: their delay, clocks, clusters, intervals, units.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Finding;
use super::super::codes::{GM302, GM303, GM304, GM405, GM413};
use super::super::names::listed;
use super::{HeardLine, PROMETHEUS, PolledSource, of_job, place, span};

/// Milliseconds by which samples may be late. Samples of a Prometheus that scrapes are
/// late by one poll, samples of remote write by some seconds more.
const LATE_MS: i64 = 20_000;

/// Milliseconds by which clocks may differ, beside the scrape interval over which the
/// scrapes of a job are spread. Clocks that NTP sets differ by far less.
const CLOCK_MS: i64 = 10_000;

/// The default interval of dcgm-exporter (NVIDIA/dcgm-exporter,
/// `DCGM_EXPORTER_INTERVAL`).
const EXPORTER_MS: i64 = 30_000;

pub(super) fn check(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut found = late(seen);
    found.extend(clock(seen));
    found.extend(late_targets(seen));
    found.extend(clusters(seen));
    found.extend(rare(seen));
    found.extend(units(seen));
    found
}

/// Jobs whose samples are late.
fn late(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut late: BTreeMap<&str, i64> = BTreeMap::new();
    for HeardLine { source, times, .. } in seen.lines() {
        if source.lag_ms >= LATE_MS.max(times.scrape_ms) {
            let known = late.entry(&source.job).or_default();
            *known = source.lag_ms.max(*known);
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

/// The difference of Prometheus' clock from the server's.
fn clock(seen: PolledSource<'_>) -> Option<Finding> {
    let way = if seen.skew_ms > 0 {
        "ahead of"
    } else {
        "behind"
    };
    (seen.skew_ms != 0).then(|| {
        let message = format!(
            "its clock is {} {way} this server's: values are late by this time, or expire earlier",
            span(seen.skew_ms.abs())
        );
        Finding::new(&GM303, PROMETHEUS, message, "set both clocks by NTP")
    })
}

/// Targets whose times differ from those of other targets of their job.
fn late_targets(seen: PolledSource<'_>) -> Vec<Finding> {
    let now_ms = seen.snapshot.frame().now.millis();
    let mut off: BTreeMap<(&str, &str), (BTreeSet<&str>, i64)> = BTreeMap::new();
    for HeardLine { line, times, .. } in seen.lines() {
        let ahead_ms = times.newest.millis() - now_ms;
        let (way, by_ms) = if ahead_ms > times.own_ms {
            ("ahead of", ahead_ms)
        } else {
            ("behind", times.own_ms)
        };
        if by_ms > times.scrape_ms + CLOCK_MS {
            let (places, most_ms) = off.entry((&line.job, way)).or_default();
            places.insert(place(line));
            *most_ms = by_ms.max(*most_ms);
        }
    }
    let found = off.into_iter().map(|((job, way), (places, most_ms))| {
        let message = format!(
            "the times of samples of {} are up to {} {way} those of the other targets: their readings count at other times",
            listed(places),
            span(most_ms)
        );
        let remedy = "set the clocks there by NTP; if exporters or agents write the timestamps, set honor_timestamps: false for the scrape";
        Finding::new(&GM303, of_job(job), message, remedy)
    });
    found.collect()
}

/// Several clusters in one store, by the names of clusters or of nodes.
fn clusters(seen: PolledSource<'_>) -> Option<Finding> {
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

/// Jobs with GPUs whose scrape interval is too long: readings between two scrapes are lost.
fn rare(seen: PolledSource<'_>) -> Vec<Finding> {
    let mut slowest: BTreeMap<&str, i64> = BTreeMap::new();
    for (device, times) in seen.devices() {
        let job = seen.snapshot.newest_line(device).map(|line| &*line.job);
        let scrape_ms = slowest.entry(job.unwrap_or("?")).or_default();
        *scrape_ms = times.scrape_ms.max(*scrape_ms);
    }
    let slowest = slowest.into_iter();
    let rare = slowest.filter(|(_, scrape_ms)| *scrape_ms > EXPORTER_MS);
    let found = rare.map(|(job, scrape_ms)| {
        let message = format!(
            "is scraped every {}, but an exporter has a new reading at least every {}: the readings in between are lost",
            span(scrape_ms),
            span(EXPORTER_MS)
        );
        let remedy = format!("set scrape_interval of the job to {} or less", span(EXPORTER_MS));
        Finding::new(&GM405, of_job(job), message, remedy)
    });
    found.collect()
}

/// Jobs whose utilisation arrives in percent and as a ratio.
fn units(seen: PolledSource<'_>) -> Vec<Finding> {
    let frame = seen.snapshot.frame();
    let sources = frame.sources.all();
    let unknown = frame.unknown_units.iter();
    let sources = unknown.filter_map(|(id, ..)| sources.get(usize::from(id.0)));
    let jobs: BTreeSet<&str> = sources.map(|source| &*source.job).collect();
    let found = jobs.into_iter().map(|job| {
        let message = "the unit of utilisation is unknown, because values between 0 and 1 arrive where percents are expected: readings are treated as unknown";
        let remedy = "let all exporters send percents, or set gpu.percentAsRatio to true if all send 0 to 1, to false if such percents are right";
        Finding::new(&GM413, of_job(job), message, remedy)
    });
    found.collect()
}
