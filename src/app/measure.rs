//! Turns the pipeline's reports into the numbers of the metrics.

use std::collections::BTreeMap;

use crate::telemetry::metrics::{Figure, IntakeCounts, catalog};
use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::intake::IntakeReport;
use gpu_metrics::layout::{Layout, Standing};
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;

/// Seconds since the epoch.
pub(super) fn secs(at: Timestamp) -> f64 {
    at.millis() as f64 / 1000.0
}

/// The outcome of an answer's samples.
pub(super) fn intake(report: &IntakeReport) -> IntakeCounts {
    IntakeCounts {
        accepted: report.applied.accepted,
        samples_dropped: [
            ("invalid", report.applied.invalid),
            ("too_old", report.applied.too_old),
            ("future", report.applied.future),
        ],
        series_dropped: [
            ("unidentified", report.unidentified),
            ("too_many", report.refused),
        ],
    }
}

/// The numbers of a published snapshot.
pub(super) fn in_force(snapshot: &Snapshot, at: Timestamp, series: usize) -> [Figure; 11] {
    let devices = devices(snapshot.layout());
    let number = |count: usize| Some(count as f64);
    let count = |one: Standing, other: Standing| {
        let devices = devices.values();
        number(devices.filter(|of| **of == one || **of == other).count())
    };
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
    let conflict = count(Standing::Conflict, Standing::Foreign);
    [
        (&catalog::SNAPSHOT_TIME, &[], Some(secs(at))),
        (&catalog::SERIES, &[], number(series)),
        (&catalog::CLUSTERS, &[], number(clusters)),
        (&catalog::TARGETS, &["heard"], number(heard)),
        (&catalog::TARGETS, &["silent"], number(silent)),
        (&catalog::TARGETS, &["frozen"], number(frozen)),
        (
            &catalog::DEVICES,
            &["held"],
            count(Standing::Held, Standing::Held),
        ),
        (
            &catalog::DEVICES,
            &["unheld"],
            count(Standing::Unheld, Standing::Gone),
        ),
        (&catalog::DEVICES, &["conflict"], conflict),
        (&catalog::DEVICES, &["active"], mean(Measure::ActiveCount)),
        (&catalog::DEVICES, &["idle"], mean(Measure::IdleCount)),
    ]
}

/// The standing of each device. A shared device is held if a live pod holds one of its
/// rows; a conflicting row takes precedence over an unheld one.
fn devices(layout: &Layout) -> BTreeMap<u32, Standing> {
    let weight = |standing| match standing {
        Standing::Held => 3,
        Standing::Conflict | Standing::Foreign => 2,
        Standing::Gone => 1,
        Standing::Unheld => 0,
    };
    let mut devices: BTreeMap<u32, Standing> = BTreeMap::new();
    for facts in layout.facts().flatten() {
        let known = devices.entry(facts.device).or_insert(facts.standing);
        if weight(facts.standing) > weight(*known) {
            *known = facts.standing;
        }
    }
    devices
}
