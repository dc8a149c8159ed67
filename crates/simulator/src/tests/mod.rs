//! The fleet against `gpu_metrics::dcgm` and against real tools.

mod engine;
mod golden;
mod timeline;

use std::time::Duration;

use super::*;
use crate::series::Series;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalId;

/// The value of a label of a series.
fn label<'s>(series: &'s Series<'_>, name: &str) -> Option<&'s str> {
    let mut labels = series.labels.iter();
    labels.find(|it| it.0 == name).map(|(_, value)| &**value)
}

/// The series of the memory copy utilisation in the first seconds of a fleet.
fn memory_copy(fleet: &Fleet, secs: u64) -> impl Iterator<Item = Series<'_>> {
    let [from, to] = [0, secs].map(|secs| after(fleet.scenario(), secs));
    fleet.series([SignalId::MEM_COPY_UTIL], from, to)
}

/// A time on the timeline of a scenario.
fn after(scenario: &Scenario, secs: u64) -> Timestamp {
    scenario.epoch + Duration::from_secs(secs)
}

/// Two GPUs: the first is held and 46 % busy, the second is free.
fn held_and_free(profile: Profile) -> Fleet {
    let mut scenario = Scenario::clean(1, 2, 1).under(LoadClass::Constant(46.0));
    scenario.workloads.gpus_per_pod = vec![1];
    scenario.workloads.free_every = 2;
    scenario.exporters.profiles = vec![profile];
    Fleet::new(scenario)
}
