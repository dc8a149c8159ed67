//! An immutable view of the readings at one moment.

use super::grid::{Column, Columns};
use super::original::Original;
use super::time::Timestamp;

/// The readings as they stood when a snapshot was taken. Columns are shared
/// with the store; nothing is copied.
#[derive(Clone, Debug)]
pub struct Frame {
    now: Timestamp,
    step_ms: i64,
    signals: Vec<Columns>,
    original: Original,
}

impl Frame {
    /// A frame over the given columns.
    #[must_use]
    pub fn new(now: Timestamp, step_ms: i64, signals: Vec<Columns>, original: Original) -> Self {
        Self {
            now,
            step_ms,
            signals,
            original,
        }
    }

    /// When the frame was taken; no instant after it counts.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The step of the grid, milliseconds.
    #[must_use]
    pub fn step_ms(&self) -> i64 {
        self.step_ms
    }

    /// The instants in `(now - window, now]`, as numbers on the grid:
    /// left-open, as Prometheus 3 evaluates subqueries.
    #[must_use]
    pub fn instants(&self, window_ms: i64) -> std::ops::RangeInclusive<i64> {
        let last = self.now.millis().div_euclid(self.step_ms);
        let first = (self.now.millis() - window_ms).div_euclid(self.step_ms) + 1;
        first..=last
    }

    /// The column of each signal at an instant, by signal number.
    #[must_use]
    pub fn columns(&self, instant: i64) -> Vec<Option<&Column>> {
        self.signals
            .iter()
            .map(|columns| columns.at(instant))
            .collect()
    }

    /// The original exporter's number.
    #[must_use]
    pub fn original(&self) -> &Original {
        &self.original
    }
}
