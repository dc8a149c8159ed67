//! A replica of the server that polls the series of a case.

use std::sync::Arc;
use std::time::Duration;

use super::notation::Case;
use super::scene::{Scene, at};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample};
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

/// The time between polls, seconds.
pub(super) const POLL: usize = 5;

/// Whether a read has the sample at this place before the last one.
pub(super) type Part = fn(usize) -> bool;

/// A replica that has started.
pub(super) struct Replica<'a> {
    pub(super) case: &'a Case<'a>,
    start: f64,
    signals: Vec<SignalId>,
    pub(super) scene: Scene,
}

impl<'a> Replica<'a> {
    pub(super) fn new(case: &'a Case<'a>, start: f64) -> Self {
        Self {
            case,
            start,
            signals: case.signals().into_iter().collect(),
            scene: Scene::new(case.policy.clone()),
        }
    }

    /// Polls once, and publishes.
    pub(super) fn poll(&mut self, now: f64) -> Snapshot {
        self.read(at(now));
        let cluster = self.case.cluster(now, self.start);
        let known = &self.scene.inventory;
        let is_known = cluster.pods == known.pods
            && cluster.departed == known.departed
            && cluster.nodes.len() == known.nodes.len();
        if !is_known {
            self.scene.inventory = Arc::new(cluster);
        }
        self.scene.snapshot_at(at(now))
    }

    /// Reads the new samples that have arrived.
    fn read(&mut self, now: Timestamp) {
        let secs = (now.millis() - at(0.0).millis()) as f64 / 1000.0;
        for signal in self.signals.clone() {
            let is_refused = self.case.store.iter().any(|it| it.refuses(signal, secs));
            if !is_refused && self.scene.pipeline.is_wanted(signal, now) {
                let from = now - self.scene.pipeline.range(signal, now);
                self.take(signal, from, now, |_| true);
            }
        }
    }

    /// Reads samples from a time on, chosen by their place before the last one of their series.
    fn take(&mut self, signal: SignalId, from: Timestamp, now: Timestamp, part: Part) {
        let mut batch = Batch::new(signal);
        for series in self.case.series.iter().filter(|it| it.signal == signal) {
            let arrived = series.arrived(now);
            let places = (0..arrived.len()).rev().filter(|place| part(*place));
            let samples = places.map(|place| arrived[arrived.len() - 1 - place].sample);
            let samples: Vec<Sample> = samples.filter(|it| it.at > from).collect();
            if !samples.is_empty() || series.samples.is_empty() {
                batch.begin_series(series.key, &series.text);
                samples.into_iter().for_each(|it| batch.push(it));
            }
        }
        self.scene.pipeline.take(&batch, now);
    }
}

/// Reads the series of a case once, at the time of their last sample.
pub(super) fn once(case: &Case<'_>) -> Snapshot {
    in_parts(case, &[|_| true])
}

/// Reads at that time one part of the samples of each series after another.
pub(super) fn in_parts(case: &Case<'_>, parts: &[Part]) -> Snapshot {
    let mut replica = Replica::new(case, -1e6);
    let all = case.series.iter().flat_map(|series| &series.samples);
    let last = all.map(|it| it.arrives).max().unwrap_or(at(0.0));
    let now = case.now.unwrap_or(last + Duration::from_secs(1));
    let read = last.min(now);
    let from = read - replica.scene.pipeline.range(SignalId::MEM_COPY_UTIL, read);
    for part in parts {
        for signal in replica.signals.clone() {
            replica.take(signal, from, read, *part);
        }
    }
    replica.scene.inventory = Arc::new(case.cluster(0.0, -1e6));
    replica.scene.snapshot_at(now)
}
