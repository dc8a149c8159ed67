//! The server's metrics about polls and the values in force.

use std::collections::BTreeMap;

use crate::telemetry::metrics::Metrics;
use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::intake::IntakeReport;
use gpu_metrics::layout::{Attribution, Layout};
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;

/// Counts the samples and series of a signal in an answer or a part of it.
pub(super) fn count_intake(metrics: &Metrics, signal: &str, report: &IntakeReport) {
    let applied = &report.applied;
    let accepted = &metrics.samples_accepted_total;
    accepted.add([signal], applied.accepted);
    let samples = &metrics.samples_dropped_total;
    samples.add([signal, "invalid"], applied.invalid);
    samples.add([signal, "too_old"], applied.too_old);
    samples.add([signal, "future"], applied.future);
    let series = &metrics.series_dropped_total;
    series.add([signal, "unidentified"], report.unidentified);
    series.add([signal, "too_many"], report.refused);
}

/// Shows numbers of a published snapshot.
pub(super) fn show_snapshot(metrics: &Metrics, snapshot: &Snapshot, at: Timestamp, series: usize) {
    let seconds = at.as_secs_f64();
    metrics.snapshot_timestamp_seconds.set([], seconds);
    metrics.series.set([], series as f64);
    let clusters = snapshot.layout().several_clusters().len();
    metrics.clusters_in_store.set([], clusters as f64);
    let (mut heard, mut silent, mut frozen) = (0, 0, 0);
    for target in &snapshot.frame().view().targets {
        match target {
            it if it.newest == Timestamp::MIN => {}
            it if it.frozen_since.is_some() => frozen += 1,
            it if it.silent => silent += 1,
            _ => heard += 1,
        }
    }
    metrics.targets.set(["heard"], f64::from(heard));
    metrics.targets.set(["silent"], f64::from(silent));
    metrics.targets.set(["frozen"], f64::from(frozen));
    let [unheld, conflict, held] = devices(snapshot.layout());
    metrics.devices.set(["held"], held as f64);
    metrics.devices.set(["unheld"], unheld as f64);
    metrics.devices.set(["conflict"], conflict as f64);
    let mean = |measure| {
        let mut metrics = snapshot.metrics().iter();
        let index = metrics.position(|metric| metric.measure == measure)?;
        Some(snapshot.cluster_value(index)?.value)
    };
    metrics.devices.set(["active"], mean(Measure::ActiveCount));
    metrics.devices.set(["idle"], mean(Measure::IdleCount));
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
