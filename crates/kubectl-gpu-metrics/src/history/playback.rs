//! The values of a recording at any time, computed by the server's own pipeline.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;
use gpu_metrics::pipeline::Pipeline;
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;

use super::recording::Recording;

/// The time between polls of the server.
const POLL: Duration = Duration::from_secs(5);

/// The server's pipeline over a recording.
#[derive(Debug)]
pub(crate) struct Playback<'r> {
    pub(crate) recording: &'r Recording,
    pipeline: Pipeline,
    /// Samples up to this time were taken.
    until: Timestamp,
    /// The first sample of each series that was not taken.
    next: Vec<usize>,
}

impl<'r> Playback<'r> {
    pub(crate) fn of(recording: &'r Recording) -> Self {
        Self {
            recording,
            pipeline: Pipeline::new(recording.settings.clone()),
            until: recording.from,
            next: vec![0; recording.devices.len()],
        }
    }

    /// The values that were served at a time, which must not be before the last one.
    pub(crate) fn at(&mut self, at: Timestamp) -> Snapshot {
        while self.until < at {
            self.until = at.min(self.until + POLL);
            self.poll();
        }
        self.pipeline
            .publish(&Arc::new(self.recording.inventory(at)), at)
    }

    fn poll(&mut self) {
        for spec in &self.recording.settings.signals {
            let mut batch = Batch::new(spec.id);
            let series = self.recording.devices.iter().zip(&mut self.next);
            for (series, next) in series.filter(|(series, _)| series.signal == spec.id) {
                let new = &series.samples[*next..];
                let new = &new[..new.partition_point(|it| it.at <= self.until)];
                if !new.is_empty() {
                    batch.begin_series(series.key, &series.labels);
                    new.iter().for_each(|sample| batch.push(*sample));
                    *next += new.len();
                }
            }
            self.pipeline.take(&batch, self.until);
        }
        self.pipeline.end_round();
    }
}

/// An object with devices, by its kind and name.
pub(crate) fn find<'s>(
    snapshot: &'s Snapshot,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> Option<&'s Object> {
    let mut tables = snapshot.layout.tables.iter();
    let table = tables.find(|table| *table.kind.kind == *kind)?;
    table.objects.get(table.find(namespace, name)?)
}

/// The value that was served of an object, over another window than the default if there is one.
pub(crate) fn value(
    snapshot: &Snapshot,
    object: &Object,
    (measure, window): (&Measure, Option<Duration>),
    at: Timestamp,
) -> Option<Value> {
    let values = match object.is_starting {
        true => Vec::new(),
        false => snapshot.evaluate(&[object], measure, window),
    };
    let value = values.into_iter().next().flatten()?;
    (value.is_fresh(at) && value.value.is_finite()).then_some(value)
}
