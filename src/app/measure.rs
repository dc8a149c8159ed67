//! Counts polls, and exports numbers about the values in force.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::telemetry::metrics::{Metrics, Spec, catalog};
use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::intake::IntakeReport;
use gpu_metrics::layout::{Attribution, Layout};
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;

/// Seconds since the epoch.
pub(super) fn secs(at: Timestamp) -> f64 {
    at.millis() as f64 / 1000.0
}

/// Counts the end of a query: `outcome` is `success` or a kind of failure.
pub(super) fn ended(
    metrics: &Metrics,
    (server, signal): (&str, &str),
    outcome: &'static str,
    took: Duration,
) {
    metrics.count(&catalog::QUERIES, &[server, signal, outcome], 1);
    metrics.observe(&catalog::QUERY_SECONDS, &[signal], took);
}

/// Counts the samples and series of a signal in an answer or a part of it.
pub(super) fn taken(metrics: &Metrics, signal: &str, report: &IntakeReport) {
    metrics.count(&catalog::SAMPLES, &[signal], report.applied.accepted);
    for (reason, count) in [
        ("invalid", report.applied.invalid),
        ("too_old", report.applied.too_old),
        ("future", report.applied.future),
    ] {
        metrics.count(&catalog::SAMPLES_DROPPED, &[signal, reason], count);
    }
    for (reason, count) in [
        ("unidentified", report.unidentified),
        ("too_many", report.refused),
    ] {
        metrics.count(&catalog::SERIES_DROPPED, &[signal, reason], count);
    }
}

/// Shows when all devices of a server were last read for a signal.
pub(super) fn read(metrics: &Metrics, (server, signal): (&str, &str), at: Timestamp) {
    metrics.show(&catalog::LAST_SUCCESS, &[server, signal], Some(secs(at)));
}

/// Removes the time of the last success of a signal, because the signal is not queried at
/// present.
pub(super) fn rests(metrics: &Metrics, (server, signal): (&str, &str)) {
    metrics.show(&catalog::LAST_SUCCESS, &[server, signal], None);
}

/// Shows numbers about a published snapshot.
pub(super) fn published(metrics: &Metrics, snapshot: &Snapshot, at: Timestamp, series: usize) {
    let number = |count: usize| Some(count as f64);
    let mean = |measure| {
        let metrics = snapshot.metrics();
        let index = metrics
            .iter()
            .position(|metric| metric.measure == measure)?;
        Some(snapshot.cluster_value(index)?.value)
    };
    let targets = || {
        let targets = snapshot.frame().view().targets.iter();
        targets.filter(|target| target.newest > Timestamp::MIN)
    };
    let frozen = targets()
        .filter(|target| target.frozen_since.is_some())
        .count();
    let silent = targets().filter(|target| target.silent).count() - frozen;
    let heard = targets().count() - silent - frozen;
    let clusters = snapshot.layout().several_clusters().len();
    let [unheld, conflict, held] = devices(snapshot.layout());
    let numbers: [(&Spec, &[&str], Option<f64>); 11] = [
        (&catalog::SNAPSHOT_TIME, &[], Some(secs(at))),
        (&catalog::SERIES, &[], number(series)),
        (&catalog::CLUSTERS, &[], number(clusters)),
        (&catalog::TARGETS, &["heard"], number(heard)),
        (&catalog::TARGETS, &["silent"], number(silent)),
        (&catalog::TARGETS, &["frozen"], number(frozen)),
        (&catalog::DEVICES, &["held"], number(held)),
        (&catalog::DEVICES, &["unheld"], number(unheld)),
        (&catalog::DEVICES, &["conflict"], number(conflict)),
        (&catalog::DEVICES, &["active"], mean(Measure::ActiveCount)),
        (&catalog::DEVICES, &["idle"], mean(Measure::IdleCount)),
    ];
    for (spec, values, number) in numbers {
        metrics.show(spec, values, number);
    }
}

/// The numbers of unheld, conflicting and held devices. A shared device counts as held if a
/// live pod holds one of its rows. A conflicting row takes precedence over an unheld one.
fn devices(layout: &Layout) -> [usize; 3] {
    let mut devices: BTreeMap<u32, usize> = BTreeMap::new();
    for facts in layout.facts().flatten() {
        let state = match facts.attribution {
            Attribution::Unheld | Attribution::Gone => 0,
            Attribution::Conflict | Attribution::Foreign => 1,
            Attribution::Held => 2,
        };
        let known = devices.entry(facts.device).or_default();
        *known = state.max(*known);
    }
    [0, 1, 2].map(|state| devices.values().filter(|known| **known == state).count())
}
