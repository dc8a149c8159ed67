//! The number of the original exporter: mean of the non-zero memory copy
//! utilisations of the whole cluster, at every multiple of five seconds.
//!
//! `dcgm.md` §4.1: no deduplication, no owners, 0 when none is active. Kept as
//! a running sum and count per instant, in millionths so that the result does
//! not depend on the order in which samples arrive.

use std::collections::VecDeque;

use super::time::Timestamp;

/// The grid of the original: it was scraped every five seconds.
pub const STEP_MS: i64 = 5_000;

const MICRO: f64 = 1e6;

/// Sum and count of the non-zero readings at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    sum_micro: i64,
    count: u32,
    /// Readings of any value.
    answered: u32,
}

impl Cell {
    fn mean(self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let whole = self.sum_micro % 1_000_000 == 0;
        // Whole percents divide exactly as the original's integers did.
        if whole {
            (self.sum_micro / 1_000_000) as f64 / f64::from(self.count)
        } else {
            self.sum_micro as f64 / MICRO / f64::from(self.count)
        }
    }
}

/// The cells of the retained past, oldest first, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Original {
    first: i64,
    cells: VecDeque<Cell>,
    newest: Option<Timestamp>,
    fresh_until: Timestamp,
}

impl Original {
    /// Replaces one series' contribution at instant `index`: the reading it
    /// had before by the one it has now.
    pub fn exchange(&mut self, index: i64, before: Option<f64>, after: Option<f64>) {
        if before == after {
            return;
        }
        if self.cells.is_empty() {
            self.first = index;
        }
        while index < self.first {
            self.cells.push_front(Cell::default());
            self.first -= 1;
        }
        let position = usize::try_from(index - self.first).unwrap_or(0);
        if position >= self.cells.len() {
            self.cells.resize(position + 1, Cell::default());
        }
        let cell = &mut self.cells[position];
        for (reading, sign) in [(before, -1), (after, 1)] {
            if reading.is_some() {
                cell.answered = cell.answered.saturating_add_signed(sign as i32);
            }
            if let Some(value) = reading.filter(|value| *value != 0.0) {
                cell.sum_micro += sign * (value * MICRO).round() as i64;
                cell.count = cell.count.saturating_add_signed(sign as i32);
            }
        }
    }

    /// Notes that a sample of time `at` was used and stays fresh until then.
    pub fn saw(&mut self, at: Timestamp, fresh_until: Timestamp) {
        self.newest = self.newest.max(Some(at));
        self.fresh_until = self.fresh_until.max(fresh_until);
    }

    /// Drops instants before `from`.
    pub fn retain_from(&mut self, from: Timestamp) {
        let index = from.millis().div_euclid(STEP_MS);
        while self.first < index && self.cells.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The newest sample used and until when it is fresh.
    #[must_use]
    pub fn freshness(&self) -> Option<(Timestamp, Timestamp)> {
        self.newest.map(|at| (at, self.fresh_until))
    }

    /// The mean over the instants in `(now - window, now]`, and how many there
    /// were. Instants without any reading count 0, as the original's
    /// `or vector(0)`, but not those before the first reading in the window:
    /// what was before is not known, and unknown is not zero.
    #[must_use]
    pub fn mean(&self, now: Timestamp, window_ms: i64) -> Option<(f64, i64)> {
        let last = now.millis().div_euclid(STEP_MS);
        let start = (now.millis() - window_ms).div_euclid(STEP_MS) + 1;
        let cell = |index: i64| {
            let position = usize::try_from(index - self.first).ok();
            position.and_then(|position| self.cells.get(position))
        };
        let answered = |index: &i64| cell(*index).is_some_and(|cell| cell.answered > 0);
        let first = (start..=last).find(answered)?;
        let means = (first..=last).map(|index| cell(index).map_or(0.0, |cell| cell.mean()));
        let sum: f64 = means.sum();
        let instants = last - first + 1;
        Some((sum / instants as f64, instants))
    }
}
