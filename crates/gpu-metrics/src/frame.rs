//! An immutable view of the samples at one time.

use std::sync::Arc;

use super::grid::{Columns, Reading, RowId, WORD, instant_from};
use super::signal::SignalId;
use super::targets::{TargetId, TargetView, View};
use apimachinery::time::Timestamp;

/// The times of a row's samples.
#[derive(Clone, Copy, Debug)]
pub struct SampleTimes {
    /// Its first known sample.
    pub first: Timestamp,
    pub newest: Timestamp,
}

impl SampleTimes {
    /// No sample is known.
    pub(crate) const NEVER: Self = Self {
        first: Timestamp::MAX,
        newest: Timestamp::MIN,
    };
}

/// The samples at the time of a snapshot. Columns are shared with the store; nothing is
/// copied.
#[derive(Clone, Debug)]
pub struct Frame {
    pub(crate) now: Timestamp,
    pub(crate) step_ms: i64,
    pub(crate) signals: Vec<Columns>,
    /// By signal: whether its query was ever answered. A signal without an entry was.
    pub(crate) answered: Vec<bool>,
    pub(crate) view: Arc<View>,
    /// By row.
    pub(crate) heard: Arc<[SampleTimes]>,
}

impl Frame {
    /// Whether the query of a signal was ever answered; if not, any device may have it.
    #[must_use]
    pub fn is_answered(&self, signal: SignalId) -> bool {
        self.answered.get(signal.index()).copied().unwrap_or(true)
    }

    /// When the frame was taken.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The step of the grid, milliseconds.
    #[must_use]
    pub fn step_ms(&self) -> i64 {
        self.step_ms
    }

    /// The first instant that is not before `at`, as a number on the grid.
    #[must_use]
    pub fn instant_from(&self, at: Timestamp) -> i64 {
        instant_from(at, self.step_ms)
    }

    /// The reading of a row that counts at an instant: the newest, younger than `hold_ms`.
    #[inline]
    pub(crate) fn reading(
        &self,
        signal: SignalId,
        row: RowId,
        instant: i64,
        hold_ms: i64,
    ) -> Option<Reading> {
        let columns = self.signals.get(signal.index())?;
        columns.reading(row, (instant, self.step_ms), hold_ms)
    }

    /// The rows with a sample of any signal after the previous instant and not after this
    /// one: a bit for each row.
    pub(crate) fn sampled(&self, instant: i64) -> Vec<u64> {
        let mut rows = vec![0; self.heard.len().div_ceil(WORD)];
        for columns in &self.signals {
            columns.mark(instant, &mut rows);
        }
        rows
    }

    /// The newest reading of a row at or before an instant, however old.
    #[must_use]
    pub fn last_reading(&self, signal: SignalId, row: RowId, instant: i64) -> Option<Reading> {
        self.signals
            .get(signal.index())?
            .last_reading(row, instant, self.step_ms)
    }

    /// Sources and targets.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The state of a target.
    #[must_use]
    pub fn target(&self, id: TargetId) -> Option<&TargetView> {
        self.view.targets.get(id.0 as usize)
    }

    /// The times of the first and the newest sample of rows.
    pub(crate) fn heard(&self, rows: &[RowId]) -> Option<SampleTimes> {
        let heard = rows.iter().filter_map(|row| self.sample_times(*row));
        heard.reduce(|one, other| SampleTimes {
            first: one.first.min(other.first),
            newest: one.newest.max(other.newest),
        })
    }

    #[must_use]
    pub fn sample_times(&self, row: RowId) -> Option<SampleTimes> {
        self.heard.get(row.0 as usize).copied()
    }
}
