//! The number of the original exporter: mean of the non-zero memory copy
//! utilisations of the whole cluster, at every multiple of five seconds.
//!
//! No deduplication, no owners, 0 when none is active (docs/numbers.md, "The
//! original's number"). Kept as a running sum and count per instant, in
//! millionths so that the result does not depend on the order in which samples
//! arrive.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::time::Timestamp;

/// The grid of the original: it was scraped every five seconds.
pub const STEP_MS: i64 = 5_000;

const MICRO: f64 = 1e6;

/// Sum and count of the non-zero readings at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    sum_micro: i64,
    count: u32,
    /// Readings of any value.
    answered: u32,
    /// The newest sample among them.
    newest: Timestamp,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            sum_micro: 0,
            count: 0,
            answered: 0,
            newest: Timestamp::MIN,
        }
    }
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
}

/// The rolling mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The value, in the unit of the series.
    pub value: f64,
    /// How many instants it was taken over.
    pub instants: i64,
    /// The newest sample used.
    pub at: Timestamp,
}

/// One series' reading at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    /// The value, in the unit of the series.
    pub value: f64,
    /// The sample's time.
    pub at: Timestamp,
}

impl Original {
    /// Adds another part of the fleet, its values multiplied.
    pub fn add(&mut self, other: &Self, factor: i64) {
        for (index, cell) in (other.first..).zip(&other.cells) {
            let sum = self.cell(index);
            sum.sum_micro += cell.sum_micro * factor;
            sum.count += cell.count;
            sum.answered += cell.answered;
            sum.newest = sum.newest.max(cell.newest);
        }
    }

    /// The cell of an instant; made if need be.
    fn cell(&mut self, index: i64) -> &mut Cell {
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
        &mut self.cells[position]
    }

    /// Replaces one series' contribution at instant `index`: the reading it
    /// had before by the one it has now.
    pub fn exchange(
        &mut self,
        index: i64,
        before: Option<Contribution>,
        after: Option<Contribution>,
    ) {
        if before == after {
            return;
        }
        let cell = self.cell(index);
        for (reading, sign) in [(before, -1), (after, 1)] {
            let Some(Contribution { value, .. }) = reading else {
                continue;
            };
            cell.answered = cell.answered.saturating_add_signed(sign as i32);
            if value != 0.0 {
                cell.sum_micro += sign * (value * MICRO).round() as i64;
                cell.count = cell.count.saturating_add_signed(sign as i32);
            }
        }
        if let Some(after) = after {
            cell.newest = cell.newest.max(after.at);
        }
    }

    /// Drops instants before `from`.
    pub fn retain_from(&mut self, from: Timestamp) {
        let index = from.millis().div_euclid(STEP_MS);
        while self.first < index && self.cells.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The mean over instants given by number, and how many there
    /// were. Instants without any reading count 0, as the original's
    /// `or vector(0)`, but not those before the first or after the last reading:
    /// what is not known is not zero.
    #[must_use]
    pub fn mean(&self, window: RangeInclusive<i64>) -> Option<Mean> {
        let (start, last) = window.into_inner();
        let cell = |index: i64| {
            let position = usize::try_from(index - self.first).ok();
            position.and_then(|position| self.cells.get(position))
        };
        let answered = |index: &i64| cell(*index).is_some_and(|cell| cell.answered > 0);
        let first = (start..=last).find(answered)?;
        // Nor are there zeros after the last reading: it is served until it has
        // lasted long enough, not thinned.
        let last = (first..=last).rfind(answered)?;
        let means = (first..=last).map(|index| cell(index).map_or(0.0, |cell| cell.mean()));
        let sum: f64 = means.sum();
        let instants = last - first + 1;
        let used = (first..=last).filter_map(cell);
        let at = used.map(|cell| cell.newest).max()?;
        Some(Mean {
            value: sum / instants as f64,
            instants,
            at,
        })
    }
}
