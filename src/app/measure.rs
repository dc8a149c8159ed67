//! From what the pipeline reports to what the metrics show.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::layout::{Layout, Standing};
use crate::core::policy::Measure;
use crate::core::snapshot::Snapshot;
use crate::core::time::Timestamp;
use crate::dcgm::intake::Report;
use crate::telemetry::metrics::{InForce, Intake};

/// Seconds since the epoch.
pub(super) fn secs(at: Timestamp) -> f64 {
    at.millis() as f64 / 1000.0
}

/// What became of an answer's samples.
pub(super) fn intake(report: &Report) -> Intake {
    Intake {
        accepted: report.applied.accepted,
        invalid: report.applied.invalid,
        too_old: report.applied.too_old,
        future: report.applied.future,
        unidentified: report.unidentified,
        refused: report.refused,
    }
}

/// What a snapshot puts in force.
pub(super) fn in_force(
    snapshot: &Snapshot,
    at: Timestamp,
    took: Duration,
    series: usize,
) -> InForce {
    let devices = devices(snapshot.layout());
    let count = |standing| devices.values().filter(|of| **of == standing).count();
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
    InForce {
        heard: targets().count() - silent - frozen,
        silent,
        frozen,
        clusters: snapshot.layout().several_clusters().len(),
        at: secs(at),
        took,
        series,
        held: count(Standing::Held),
        unheld: count(Standing::Nobody) + count(Standing::Gone),
        conflict: count(Standing::Conflict) + count(Standing::Foreign),
        active: mean(Measure::ActiveCount),
        idle: mean(Measure::IdleCount),
    }
}

/// The standing of each device: one row of a shared device that a live pod
/// holds makes it held; one that disagrees weighs more than none.
fn devices(layout: &Layout) -> BTreeMap<u32, Standing> {
    let weight = |standing| match standing {
        Standing::Held => 3,
        Standing::Conflict | Standing::Foreign => 2,
        Standing::Gone => 1,
        Standing::Nobody => 0,
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
