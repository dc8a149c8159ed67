//! The server's metrics about samples and the values in force.

use crate::telemetry::metrics::Metrics;
use apimachinery::time::Timestamp;
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;
use gpu_metrics::store::IntakeReport;

/// Counts the samples and series of a signal in an answer or a part of it.
pub(super) fn count_intake(metrics: &Metrics, signal: &str, report: &IntakeReport) {
    let accepted = &metrics.samples_accepted_total;
    accepted.add([signal], report.accepted);
    let samples = &metrics.samples_dropped_total;
    samples.add([signal, "invalid"], report.invalid);
    samples.add([signal, "too_old"], report.too_old);
    samples.add([signal, "future"], report.future);
    let series = &metrics.series_dropped_total;
    series.add([signal, "unidentified"], report.unidentified);
    series.add([signal, "too_many"], report.refused);
}

/// Shows numbers of a published snapshot.
pub(super) fn show_snapshot(metrics: &Metrics, snapshot: &Snapshot, at: Timestamp, series: usize) {
    let seconds = at.as_secs_f64();
    metrics.snapshot_timestamp_seconds.set([], seconds);
    metrics.series.set([], series as f64);
    let (mut held, mut silent) = (0, 0);
    let devices = snapshot.layout.devices.len();
    for device in (0..).take(devices) {
        held += usize::from(snapshot.is_held(device));
        let times = snapshot.times(device);
        silent += usize::from(times.is_none_or(|times| times.is_silent));
    }
    for (state, count) in [
        ("held", held),
        ("unheld", devices - held),
        ("silent", silent),
    ] {
        metrics.devices.set([state], count as f64);
    }
    let mean = |measure| {
        let mut metrics = snapshot.metrics.iter();
        let index = metrics.position(|metric| metric.measure == measure)?;
        Some(snapshot.cluster_value(index)?.value)
    };
    metrics.devices.set(["active"], mean(Measure::ActiveCount));
    metrics.devices.set(["idle"], mean(Measure::IdleCount));
}
