//! The raw samples of one poll of one signal, as a source returns them.

use std::ops::Range;

use bytes::Bytes;

use super::signal::SignalId;
use apimachinery::time::Timestamp;

/// One raw sample from the source, neither validated nor scaled. A value that is no
/// number is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The sample's own time.
    pub at: Timestamp,
    /// The raw value, in the exporter's unit.
    pub value: f64,
}

/// Identifies a series within one process: a 128-bit hash over the text of its label set.
/// The hash is keyed, because clients choose label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesKey(pub u128);

/// A Prometheus that is polled, by its place in the configuration. Each has devices of
/// its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrometheusId(pub u8);

/// The samples of one signal, grouped by series.
///
/// `text` holds the label sets as JSON objects, exactly as the engine printed them
/// (`{"__name__":"DCGM_FI_DEV_MEM_COPY_UTIL","UUID":"GPU-…"}`). They are parsed only for
/// a new series, so a warm poll reads no labels.
#[derive(Debug)]
pub struct Batch {
    /// The signal that the query selected.
    pub signal: SignalId,
    /// The Prometheus that answered; by default the first.
    pub prometheus: PrometheusId,
    text: Bytes,
    series: Vec<Entry>,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: SeriesKey,
    labels: (usize, usize),
    samples_end: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct BatchSeries<'a> {
    /// The identity of the series.
    pub key: SeriesKey,
    /// The label set as the text of a JSON object of strings.
    pub labels: &'a str,
    /// The samples in the order of the answer: usually, but not always, the oldest first.
    pub samples: &'a [Sample],
}

impl Batch {
    /// An empty batch over `text`, which the label ranges of
    /// [`Batch::begin_series`] point into.
    #[must_use]
    pub fn new(signal: SignalId, text: Bytes) -> Self {
        Self {
            signal,
            prometheus: PrometheusId::default(),
            text,
            series: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Empties the batch for another poll, keeping its memory.
    pub fn reset(&mut self, signal: SignalId, text: Bytes) {
        self.signal = signal;
        self.text = text;
        self.clear();
    }

    /// Empties the batch and returns its text, so that the next answer can reuse the
    /// memory.
    #[must_use]
    pub fn take_text(&mut self) -> Bytes {
        self.clear();
        std::mem::take(&mut self.text)
    }

    /// Removes the series. The answer at the start is many times as long as those that
    /// follow, so memory beyond twice what was used is freed.
    fn clear(&mut self) {
        self.series.clear();
        let used = self.samples.len();
        self.samples.clear();
        if used > 0 {
            self.samples.shrink_to(2 * used);
        }
    }

    /// Starts a series: the samples pushed next belong to it. `labels` is a byte range of
    /// `text` that holds valid UTF-8.
    pub fn begin_series(&mut self, key: SeriesKey, labels: Range<usize>) {
        self.series.push(Entry {
            key,
            labels: (labels.start, labels.end),
            samples_end: self.samples.len(),
        });
    }

    /// Adds a sample to the series begun last; without one it is dropped.
    pub fn push(&mut self, sample: Sample) {
        if let Some(entry) = self.series.last_mut() {
            self.samples.push(sample);
            entry.samples_end = self.samples.len();
        }
    }

    /// Shortens the batch to these numbers of series and samples.
    pub fn truncate(&mut self, (series, samples): (usize, usize)) {
        self.series.truncate(series);
        self.samples.truncate(samples);
    }

    /// The series in the order of the answer.
    pub fn iter(&self) -> impl Iterator<Item = BatchSeries<'_>> {
        let mut start = 0;
        self.series.iter().map(move |entry| {
            let samples = &self.samples[start..entry.samples_end];
            start = entry.samples_end;
            let bytes = self.text.get(entry.labels.0..entry.labels.1);
            BatchSeries {
                key: entry.key,
                labels: bytes
                    .and_then(|bytes| std::str::from_utf8(bytes).ok())
                    .unwrap_or("{}"),
                samples,
            }
        })
    }

    /// Copies each series into the part that `part_of` returns for its labels. The parts
    /// have the text of this batch. Returns whether each series has a part.
    #[must_use]
    pub fn divide(&self, parts: &mut [Self], part_of: impl Fn(&str) -> Option<usize>) -> bool {
        let mut all = self.series.iter().zip(self.iter());
        all.all(|(entry, series)| {
            let part = part_of(series.labels).and_then(|place| parts.get_mut(place));
            let Some(part) = part else { return false };
            part.begin_series(series.key, entry.labels.0..entry.labels.1);
            series.samples.iter().for_each(|sample| part.push(*sample));
            true
        })
    }

    /// How many series the batch holds.
    #[must_use]
    pub fn series_len(&self) -> usize {
        self.series.len()
    }

    /// How many bytes its series and samples take.
    #[must_use]
    pub fn bytes_beside_text(&self) -> usize {
        size_of_val(&*self.series) + size_of_val(&*self.samples)
    }

    /// How many samples the batch holds.
    #[must_use]
    pub fn samples_len(&self) -> usize {
        self.samples.len()
    }
}
