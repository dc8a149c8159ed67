//! The fleet against docs/exporter.md and against real tools.

mod engine;
mod lines;
mod store;
mod timeline;

use std::time::Duration;

use super::*;
use apimachinery::time::Timestamp;

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
