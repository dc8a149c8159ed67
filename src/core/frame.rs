//! An immutable view of the samples at one moment.

use std::sync::Arc;

use super::grid::{Columns, Reading, RowId, instant_from};
use super::original::Original;
use super::signal::SignalId;
use super::store::Heard;
use super::targets::{TargetId, TargetView, View};
use super::time::Timestamp;

/// How the source is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time between two polls, milliseconds.
    pub poll_ms: i64,
    /// How long the last round of polls took, milliseconds.
    pub round_ms: i64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll_ms: 5_000,
            round_ms: 0,
        }
    }
}

/// The samples as they stood when a snapshot was taken. Columns are shared
/// with the store; nothing is copied.
#[derive(Clone, Debug)]
pub struct Frame {
    now: Timestamp,
    pace: Pace,
    step_ms: i64,
    signals: Vec<Columns>,
    /// Whether each signal was ever answered; what is not listed was.
    answered: Vec<bool>,
    original: Original,
    view: Arc<View>,
    heard: Arc<[Heard]>,
}

impl Frame {
    /// A frame over the given columns.
    #[must_use]
    pub fn new(
        (now, pace): (Timestamp, Pace),
        step_ms: i64,
        signals: Vec<Columns>,
        original: Original,
        view: View,
        heard: Vec<Heard>,
    ) -> Self {
        Self {
            now,
            pace,
            step_ms,
            signals,
            answered: Vec::new(),
            original,
            view: Arc::new(view),
            heard: heard.into(),
        }
    }

    /// The same, told which signals were ever answered.
    #[must_use]
    pub fn answered(self, answered: Vec<bool>) -> Self {
        Self { answered, ..self }
    }

    /// The same readings at `now`, which is over, when the sources had come to
    /// `horizons`.
    #[must_use]
    pub fn as_of(&self, now: Timestamp, horizons: &[Timestamp]) -> Self {
        let poll_ms = self.pace.poll_ms + self.pace.round_ms;
        Self {
            now,
            view: Arc::new(self.view.as_of(now, poll_ms, horizons)),
            ..self.clone()
        }
    }

    /// Whether a signal was ever answered: else a device without it may have it.
    #[must_use]
    pub fn is_answered(&self, signal: SignalId) -> bool {
        self.answered.get(signal.index()).copied().unwrap_or(true)
    }

    /// When the frame was taken.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// How the source is asked.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
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

    /// The reading of a row that counts at an instant, held for `hold_ms`.
    #[inline]
    #[must_use]
    pub fn reading(
        &self,
        signal: SignalId,
        row: RowId,
        instant: i64,
        hold_ms: i64,
    ) -> Option<Reading> {
        self.signals
            .get(signal.index())?
            .reading(row, instant, self.step_ms, hold_ms)
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

    /// A target as it stands.
    #[must_use]
    pub fn target(&self, id: TargetId) -> Option<&TargetView> {
        self.view.targets.get(id.0 as usize)
    }

    /// When a row was heard.
    #[must_use]
    pub fn heard(&self, row: RowId) -> Option<Heard> {
        self.heard.get(row.0 as usize).copied()
    }

    /// The original exporter's number.
    #[must_use]
    pub fn original(&self) -> &Original {
        &self.original
    }
}
