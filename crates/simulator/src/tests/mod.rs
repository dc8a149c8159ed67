//! The fleet against `gpu_metrics::dcgm` and against real tools.

mod engine;
mod golden;
mod timeline;

use std::time::Duration;

use super::*;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalId;

/// A series as stored by Prometheus.
struct ScrapedSeries {
    labels: Labels,
    samples: Vec<(Timestamp, f64)>,
}

impl Fleet {
    /// All series with at least one sample in `[from, to]`.
    fn scraped(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = ScrapedSeries> {
        self.series(SignalId::BUILT_IN.iter().copied(), from, to)
            .map(|series| {
                let labels = series.labels.iter();
                let labels = labels.map(|(name, value)| (name.to_string(), value.to_string()));
                ScrapedSeries {
                    labels: Labels::from_pairs(labels),
                    samples: series.samples,
                }
            })
    }
}

/// The series of the memory copy utilisation in the first seconds of a scenario.
fn memory_copy(scenario: Scenario, secs: u64) -> Vec<ScrapedSeries> {
    let (from, to) = (after(&scenario, 0), after(&scenario, secs));
    let fleet = Fleet::new(scenario);
    let mut series: Vec<ScrapedSeries> = fleet.scraped(from, to).collect();
    series.retain(|it| it.labels.get("__name__") == Some("DCGM_FI_DEV_MEM_COPY_UTIL"));
    series
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
