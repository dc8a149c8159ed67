//! The server's metrics about samples and the values in force.

use std::collections::BTreeMap;

use crate::telemetry::metrics::Metrics;
use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::intake::IntakeReport;
use gpu_metrics::layout::{Attribution, Layout};
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;
use gpu_metrics::targets::TargetView;

/// The states of devices, the lesser first.
const STATES: [&str; 3] = ["unheld", "conflict", "held"];

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
    let targets = snapshot.frame().view().targets.iter();
    let known = targets.filter(|target| target.newest > Timestamp::MIN);
    for state in ["heard", "silent", "frozen"] {
        let count = known.clone().filter(|it| state_of(it) == state).count();
        metrics.targets.set([state], count as f64);
    }
    let devices = devices(snapshot.layout());
    for (state, name) in STATES.into_iter().enumerate() {
        let count = devices.values().filter(|known| **known == state).count();
        metrics.devices.set([name], count as f64);
    }
    let mean = |measure| {
        let mut metrics = snapshot.metrics().iter();
        let index = metrics.position(|metric| metric.measure == measure)?;
        Some(snapshot.cluster_value(index)?.value)
    };
    metrics.devices.set(["active"], mean(Measure::ActiveCount));
    metrics.devices.set(["idle"], mean(Measure::IdleCount));
}

fn state_of(target: &TargetView) -> &'static str {
    match (target.frozen_since, target.silent) {
        (Some(_), _) => "frozen",
        (None, true) => "silent",
        (None, false) => "heard",
    }
}

/// The state of each device, an index of [`STATES`]. A shared device counts as held if a live
/// pod holds one of its rows. A conflicting row takes precedence over an unheld one.
fn devices(layout: &Layout) -> BTreeMap<u32, usize> {
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
    devices
}
