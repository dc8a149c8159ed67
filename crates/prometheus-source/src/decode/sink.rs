//! Receives decoded series, and fills a batch with them.

use std::ops::Range;

use super::{KeyHasher, Nan};
use gpu_metrics::batch::{Batch, Sample};

/// A batch, and how it is filled.
pub(super) struct Sink<'a> {
    text_start: usize,
    nan: Nan,
    hasher: &'a KeyHasher,
    batch: &'a mut Batch,
    /// The most bytes that the batch may take in addition to its text.
    room: usize,
    /// The series and samples that the batch already had.
    before: (usize, usize),
}

impl<'a> Sink<'a> {
    /// A sink for the series in `text`, which must be the batch's text.
    pub(super) fn new(
        text: &[u8],
        nan: Nan,
        hasher: &'a KeyHasher,
        (batch, room): (&'a mut Batch, usize),
    ) -> Self {
        Self {
            text_start: text.as_ptr().addr(),
            nan,
            hasher,
            room,
            before: (batch.series_len(), batch.samples_len()),
            batch,
        }
    }

    /// The range in the batch's text of a string borrowed from it.
    fn range(&self, raw: &str) -> Range<usize> {
        let start = raw.as_ptr().addr().wrapping_sub(self.text_start);
        start..start.wrapping_add(raw.len())
    }

    /// Begins a series with these labels, which are in the batch's text.
    #[inline]
    pub(super) fn begin(&mut self, labels: &str) {
        let range = self.range(labels);
        self.batch.begin_series(self.hasher.key(labels), range);
    }

    /// Adds a sample to the current series; skips a staleness marker.
    #[inline]
    pub(super) fn push(&mut self, sample: Sample) {
        if self.nan == Nan::Value || !sample.value.is_nan() {
            self.batch.push(sample);
        }
    }

    /// Removes all series and samples that this sink added.
    pub(super) fn start_over(&mut self) {
        self.batch.truncate(self.before);
    }

    /// Whether the batch takes at most `room` bytes in addition to its text.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.batch.bytes_beside_text() <= self.room
    }
}
