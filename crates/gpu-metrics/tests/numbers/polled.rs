//! Series that are read poll by poll, as the server does, rather than at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::scene::{Scene, at, json, key, sample};
use gpu_metrics::batch::{Batch, Sample};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;

/// A series of the memory copy utilisation and its samples.
pub(super) type Line = (String, Vec<Sample>);

/// A series with one value every `scrape` seconds from `phase` on, at times within
/// `during`.
pub(super) fn line(
    labels: &str,
    value: f64,
    (scrape, phase): (f64, f64),
    during: (f64, f64),
) -> Line {
    let count = ((during.1 - during.0) / scrape) as i32 + 1;
    let first = ((during.0 - phase) / scrape).ceil();
    let times = (0..=count).map(|place| phase + (first + f64::from(place)) * scrape);
    let times = times.filter(|time| (during.0..during.1).contains(time));
    let samples = times.map(|time| sample(time, value));
    (labels.to_owned(), samples.collect())
}

pub(super) fn pod(gpu: usize, job: &str) -> String {
    format!("UUID={job}{gpu} gpu=0 job={job} instance={job}{gpu} namespace=n pod={job}{gpu}")
}

pub(super) fn detected(window: Option<u64>) -> Scene {
    Scene::new(Policy {
        window: window.map(Duration::from_secs),
        ..Policy::default()
    })
}

pub(super) fn with_cluster(scene: Scene, lines: &[Line]) -> Scene {
    let name = |(labels, _): &Line| format!("n/{}", labels.rsplit_once("pod=").unwrap().1);
    let names: BTreeSet<String> = lines.iter().map(name).collect();
    scene.pods(names)
}

/// Polls once, with the new samples of all lines.
pub(super) fn poll(scene: &mut Scene, lines: &[Line], now: f64) -> Snapshot {
    read(scene, MCU, lines, now);
    scene.snapshot_at(at(now))
}

/// Reads the new samples of a signal's lines.
pub(super) fn read(scene: &mut Scene, signal: SignalId, lines: &[Line], now: f64) {
    let range = scene.pipeline.range(signal, at(now));
    let mut batch = Batch::new(signal);
    for (labels, samples) in lines {
        let text = json(labels);
        let is_new = |sample: &&Sample| sample.at <= at(now) && sample.at + range > at(now);
        let mut new = samples.iter().filter(is_new).peekable();
        if new.peek().is_some() {
            batch.begin_series(key(&text), &text);
            new.for_each(|sample| batch.push(*sample));
        }
    }
    scene.pipeline.take(&batch, at(now));
}
