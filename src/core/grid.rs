//! Samples on the grid of instants: one column per signal and instant.
//!
//! A column holds, for every row (a device as held by an owner), the newest
//! sample between the instant before and its own. Which sample counts at an
//! instant is found by looking back from its column as far as a reading is
//! believed. Columns are shared with published snapshots; the writer copies a
//! column only if a snapshot still holds it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::time::Timestamp;

/// Index of a row: a device as held by one owner (or by nobody).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub u32);

/// A reading: a valid value and the time of its sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The value in the served unit (percent, MiB, watts).
    pub value: f64,
    /// The sample's time.
    pub at: Timestamp,
}

impl Reading {
    /// The reading that counts out of two of the same device at the same
    /// instant: the newer one, of equally new ones the larger.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        let newer = other.at > self.at || (other.at == self.at && other.value > self.value);
        if newer { other } else { self }
    }
}

/// What fills a cell without a sample.
const EMPTY: u32 = u32::MAX;

/// The newest sample of every row before one instant: 12 bytes a row.
#[derive(Clone, Debug, Default)]
struct Column {
    /// NaN where the sample was no reading.
    values: Vec<f64>,
    /// Milliseconds from the sample to the instant; [`EMPTY`]: no sample.
    ages: Vec<u32>,
}

impl Column {
    fn with_rows(rows: usize) -> Self {
        Self {
            values: vec![f64::NAN; rows],
            ages: vec![EMPTY; rows],
        }
    }

    /// Value and age of a row's cell.
    #[inline]
    fn cell(&self, row: RowId) -> Option<(f64, u32)> {
        let age = *self.ages.get(row.0 as usize)?;
        let value = *self.values.get(row.0 as usize)?;
        (age != EMPTY).then_some((value, age))
    }

    fn write(&mut self, row: RowId, value: f64, age: u32) {
        let index = row.0 as usize;
        if index >= self.values.len() {
            self.values.resize(index + 1, f64::NAN);
            self.ages.resize(index + 1, EMPTY);
        }
        self.values[index] = value;
        self.ages[index] = age;
    }
}

/// Whether a series is the only one that feeds its row with its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// The only one: what it says last stands, a sample that is no reading too.
    Alone,
    /// One of several: a reading stands against a sibling that has none.
    Shared,
}

/// The columns of one signal, oldest first, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Index of the first column: its instant divided by the step.
    first: i64,
    columns: VecDeque<Arc<Column>>,
}

/// The index of the first instant that is not before `at`.
#[must_use]
pub fn instant_from(at: Timestamp, step_ms: i64) -> i64 {
    let millis = at.millis();
    millis.div_euclid(step_ms) + i64::from(millis.rem_euclid(step_ms) != 0)
}

/// The time of an instant.
#[must_use]
pub const fn instant_time(index: i64, step_ms: i64) -> Timestamp {
    Timestamp::from_millis(index * step_ms)
}

impl Columns {
    fn at(&self, index: i64) -> Option<&Arc<Column>> {
        let position = usize::try_from(index - self.first).ok()?;
        self.columns.get(position)
    }

    /// The reading of `row` that counts at instant `index` of a grid of
    /// `step_ms`: its newest sample, if that is a reading and younger than
    /// `hold_ms`.
    #[inline]
    #[must_use]
    pub fn reading(&self, row: RowId, index: i64, step_ms: i64, hold_ms: i64) -> Option<Reading> {
        let (reading, age_ms) = self.newest(row, index, step_ms, hold_ms)?;
        (age_ms < hold_ms && !reading.value.is_nan()).then_some(reading)
    }

    /// The newest reading at or before an instant, however old, samples that
    /// are no readings passed over.
    #[must_use]
    pub fn last_reading(&self, row: RowId, index: i64, step_ms: i64) -> Option<Reading> {
        let last = index.min(self.first + self.len() - 1);
        (self.first..=last).rev().find_map(|at| {
            let (value, age) = self.at(at)?.cell(row)?;
            (!value.is_nan()).then(|| Reading {
                value,
                at: Timestamp::from_millis(at * step_ms - i64::from(age)),
            })
        })
    }

    /// Whether a row has a sample in the time of `within_ms` before an instant.
    #[must_use]
    pub fn has_sample(&self, row: RowId, index: i64, step_ms: i64, within_ms: i64) -> bool {
        let newest = self.newest(row, index, step_ms, within_ms);
        newest.is_some_and(|(_, age_ms)| age_ms <= within_ms)
    }

    /// The newest sample at or before an instant and its age, looked for
    /// `hold_ms` back.
    #[inline]
    fn newest(&self, row: RowId, index: i64, step_ms: i64, hold_ms: i64) -> Option<(Reading, i64)> {
        let farthest = (index - hold_ms / step_ms - 1).max(self.first);
        let mut at = index.min(self.first + self.len() - 1);
        while at >= farthest {
            if let Some((value, age)) = self.at(at)?.cell(row) {
                let sample = Timestamp::from_millis(at * step_ms - i64::from(age));
                let age_ms = index * step_ms - sample.millis();
                return Some((Reading { value, at: sample }, age_ms));
            }
            at -= 1;
        }
        None
    }

    /// Puts a sample into its cell (NaN: it is no reading); whether that
    /// changed anything. Of several the newest stands, of equally new ones the
    /// larger.
    pub fn put(
        &mut self,
        row: RowId,
        sample: Reading,
        step_ms: i64,
        rows: usize,
        feed: Feed,
    ) -> bool {
        let index = instant_from(sample.at, step_ms);
        let age = index * step_ms - sample.at.millis();
        let age = u32::try_from(age).unwrap_or(EMPTY - 1);
        let known = self.at(index).and_then(|column| column.cell(row));
        if let Some((value, known_age)) = known {
            let ended = sample.value.is_nan();
            let stands = match (value.is_nan(), ended) {
                // A reading beside a sibling's sample that is none.
                (false, true) if feed == Feed::Shared || known_age == age => true,
                (true, false) if feed == Feed::Shared || known_age == age => false,
                _ => known_age < age || (known_age == age && (ended || value >= sample.value)),
            };
            if stands {
                return false;
            }
        }
        self.make(index, rows);
        let position = usize::try_from(index - self.first).unwrap_or(usize::MAX);
        if let Some(column) = self.columns.get_mut(position) {
            Arc::make_mut(column).write(row, sample.value, age);
        }
        true
    }

    /// Makes room for an instant.
    fn make(&mut self, index: i64, rows: usize) {
        if self.columns.is_empty() {
            self.first = index;
        }
        while self.first > index {
            self.columns.push_front(Arc::new(Column::with_rows(rows)));
            self.first -= 1;
        }
        while self.first + self.len() <= index {
            self.columns.push_back(Arc::new(Column::with_rows(rows)));
        }
    }

    /// Forgets what a row had.
    pub fn forget(&mut self, row: RowId) {
        for column in &mut self.columns {
            if column.cell(row).is_some() {
                Arc::make_mut(column).write(row, f64::NAN, EMPTY);
            }
        }
    }

    fn len(&self) -> i64 {
        i64::try_from(self.columns.len()).unwrap_or(i64::MAX)
    }

    /// Drops the columns before instant `from`.
    pub fn retain_from(&mut self, from: i64) {
        while self.first < from && self.columns.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The same samples on a grid of another step: nothing that a coarser grid
    /// shows is lost.
    #[must_use]
    pub fn with_step(&self, from_ms: i64, to_ms: i64) -> Self {
        let mut columns = Self::default();
        for (index, column) in (self.first..).zip(&self.columns) {
            let rows = column.values.len();
            for row in 0..u32::try_from(rows).unwrap_or(u32::MAX) {
                let Some((value, age)) = column.cell(RowId(row)) else {
                    continue;
                };
                let at = Timestamp::from_millis(index * from_ms - i64::from(age));
                columns.put(RowId(row), Reading { value, at }, to_ms, rows, Feed::Alone);
            }
        }
        columns
    }

    /// Multiplies every reading of the rows that `chosen` names.
    pub fn scale(&mut self, factor: f64, chosen: impl Fn(RowId) -> bool) {
        for column in &mut self.columns {
            let column = Arc::make_mut(column);
            for (index, value) in column.values.iter_mut().enumerate() {
                if chosen(RowId(u32::try_from(index).unwrap_or(u32::MAX))) {
                    *value *= factor;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: i64 = 15_000;
    const ROW: RowId = RowId(0);

    fn sample(secs: i64, value: f64) -> Reading {
        Reading {
            value,
            at: Timestamp::from_secs(secs),
        }
    }

    fn columns(samples: &[(i64, f64)], feed: Feed) -> Columns {
        let mut columns = Columns::default();
        for (secs, value) in samples {
            columns.put(ROW, sample(*secs, *value), STEP, 1, feed);
        }
        columns
    }

    fn at(columns: &Columns, instant: i64, hold_secs: i64) -> Option<f64> {
        let reading = columns.reading(ROW, instant, STEP, hold_secs * 1000)?;
        Some(reading.value)
    }

    #[test]
    fn a_sample_counts_from_the_first_instant_not_before_it_until_it_is_too_old() {
        let columns = columns(&[(15, 1.0), (16, 2.0)], Feed::Alone);
        assert_eq!(at(&columns, 0, 45), None);
        assert_eq!(at(&columns, 1, 45), Some(1.0));
        assert_eq!(at(&columns, 2, 45), Some(2.0));
        assert_eq!(at(&columns, 4, 45), Some(2.0));
        assert_eq!(at(&columns, 5, 45), None);
        assert_eq!(at(&columns, 5, 60), Some(2.0));
        assert_eq!(columns.last_reading(ROW, 100, STEP), Some(sample(16, 2.0)));
    }

    #[test]
    fn a_sample_that_is_no_reading_ends_the_one_before_it() {
        let alone = columns(&[(14, 1.0), (20, f64::NAN)], Feed::Alone);
        assert_eq!(at(&alone, 1, 45), Some(1.0));
        assert_eq!(at(&alone, 2, 45), None);
        assert_eq!(alone.last_reading(ROW, 2, STEP), Some(sample(14, 1.0)));
    }

    #[test]
    fn the_newest_stands_whatever_the_order_and_a_reading_against_a_sibling_without() {
        for order in [[(2, 1.0), (9, 2.0)], [(9, 2.0), (2, 1.0)]] {
            assert_eq!(at(&columns(&order, Feed::Shared), 1, 45), Some(2.0));
        }
        let nan = f64::NAN;
        for order in [[(2, 1.0), (9, nan)], [(9, nan), (2, 1.0)]] {
            assert_eq!(at(&columns(&order, Feed::Shared), 1, 45), Some(1.0));
            assert_eq!(at(&columns(&order, Feed::Alone), 1, 45), None);
        }
        let equal = columns(&[(9, 2.0), (9, 3.0), (9, nan)], Feed::Alone);
        assert_eq!(at(&equal, 1, 45), Some(3.0));
    }

    #[test]
    fn another_step_keeps_what_it_can_show() {
        let quick = columns(&[(1, 1.0), (16, 2.0), (31, 3.0), (61, 4.0)], Feed::Alone);
        let slow = quick.with_step(STEP, 60_000);
        let value = |index| Some(slow.reading(ROW, index, 60_000, 150_000)?.value);
        assert_eq!((value(0), value(1), value(2)), (None, Some(3.0), Some(4.0)));
    }
}
