//! The raw samples of one signal, as a source returns them.

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

/// The samples of one signal, grouped by series.
///
/// The label sets are JSON objects, exactly as the engine printed them
/// (`{"__name__":"DCGM_FI_DEV_MEM_COPY_UTIL","UUID":"GPU-…"}`). They are parsed only for
/// a new series, so a warm poll reads no labels.
#[derive(Debug)]
pub struct Batch {
    /// The signal that the query selected.
    pub signal: SignalId,
    /// The label sets, one after the other.
    labels: String,
    series: Vec<SeriesEnds>,
    samples: Vec<Sample>,
}

/// A series, and where its labels and samples end.
#[derive(Clone, Copy, Debug)]
struct SeriesEnds {
    key: SeriesKey,
    labels: usize,
    samples: usize,
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
    /// An empty batch.
    #[must_use]
    pub const fn new(signal: SignalId) -> Self {
        Self {
            signal,
            labels: String::new(),
            series: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Removes the series, and keeps the memory.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.series.clear();
        self.samples.clear();
    }

    /// Starts a series: the samples pushed next belong to it.
    pub fn begin_series(&mut self, key: SeriesKey, labels: &str) {
        self.labels.push_str(labels);
        self.series.push(SeriesEnds {
            key,
            labels: self.labels.len(),
            samples: self.samples.len(),
        });
    }

    /// Adds a sample to the series begun last; without one it is dropped.
    #[inline]
    pub fn push(&mut self, sample: Sample) {
        if let Some(ends) = self.series.last_mut() {
            self.samples.push(sample);
            ends.samples = self.samples.len();
        }
    }

    /// Adds the series of another batch.
    pub fn append(&mut self, other: &Self) {
        for series in other.iter() {
            self.begin_series(series.key, series.labels);
            for sample in series.samples {
                self.push(*sample);
            }
        }
    }

    /// Removes the series begun last.
    pub fn pop_series(&mut self) {
        self.series.pop();
        let last = self.series.last();
        let (labels, samples) = last.map_or((0, 0), |last| (last.labels, last.samples));
        self.labels.truncate(labels);
        self.samples.truncate(samples);
    }

    /// The series in the order of the answer.
    pub fn iter(&self) -> impl Iterator<Item = BatchSeries<'_>> {
        let (mut labels, mut samples) = (0, 0);
        self.series.iter().map(move |ends| {
            let series = BatchSeries {
                key: ends.key,
                labels: &self.labels[labels..ends.labels],
                samples: &self.samples[samples..ends.samples],
            };
            (labels, samples) = (ends.labels, ends.samples);
            series
        })
    }

    /// How many series the batch holds.
    #[must_use]
    pub const fn series_len(&self) -> usize {
        self.series.len()
    }

    /// How many bytes its labels, series and samples take.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.labels.len()
            + self.series.len() * size_of::<SeriesEnds>()
            + self.samples.len() * size_of::<Sample>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_can_be_joined_removed_and_cleared() {
        let text = |batch: &Batch| {
            let series = batch.iter();
            let series = series.map(|it| format!("{} {}", it.labels, it.samples.len()));
            series.collect::<Vec<_>>().join(", ")
        };
        let at = Timestamp::from_secs(1);
        let sample = Sample { at, value: 1.0 };
        let of = |labels: &str, count| {
            let mut batch = Batch::new(SignalId::GPU_UTIL);
            batch.push(sample);
            batch.begin_series(SeriesKey(1), labels);
            (0..count).for_each(|_| batch.push(sample));
            batch
        };
        let mut batch = of("a", 2);
        batch.append(&of("b", 3));
        assert_eq!(text(&batch), "a 2, b 3");
        assert_eq!(batch.series_len(), 2);
        let (series, sample) = (size_of::<SeriesEnds>(), size_of::<Sample>());
        assert_eq!(batch.bytes(), 2 + 2 * series + 5 * sample);
        batch.pop_series();
        assert_eq!(text(&batch), "a 2");
        batch.append(&of("c", 1));
        assert_eq!(text(&batch), "a 2, c 1");
        batch.clear();
        batch.append(&of("d", 0));
        assert_eq!(text(&batch), "d 0");
    }
}
