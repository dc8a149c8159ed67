//! Samples on the grid of instants: one column per signal and instant.
//!
//! A column holds the newest sample of each row (a device as held by an owner) between
//! the previous instant and its own. The sample that counts at an instant is found by
//! looking back from its column for as long as a reading is valid. A column stores only
//! rows with a sample in it, so a grid finer than the scrape interval costs little.
//!
//! Columns are shared with published snapshots, block by block: the writer copies a block
//! only if a snapshot still holds it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use apimachinery::time::Timestamp;

/// Index of a row: a device as held by one owner, or by none.
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
    /// The reading that counts out of two of the same device at the same instant: the
    /// newer one, and the larger of equally new ones.
    pub(crate) fn better(self, other: Self) -> Self {
        let newer = other.at > self.at || (other.at == self.at && other.value > self.value);
        if newer { other } else { self }
    }
}

/// Rows of a block: large enough that its overhead is small beside its samples, small
/// enough that inserting a row is quick.
const BLOCK: usize = 512;

/// How many samples a full list grows by: doubling would leave a third of it empty.
const GROWTH: usize = 32;

/// Bits of a word.
const WORD: usize = 64;

/// The samples of up to [`BLOCK`] rows before one instant.
#[derive(Clone, Debug, Default)]
struct Block {
    /// The rows with a sample: a bit each.
    present: [u64; BLOCK / WORD],
    /// The number of samples before each word.
    before: [u16; BLOCK / WORD],
    /// In the order of the rows; NaN where the sample is no reading.
    values: Vec<f64>,
    /// Milliseconds from the sample to the instant.
    ages: Vec<u16>,
}

impl Block {
    /// The index of a row's sample in the block, and whether it has one.
    #[inline]
    fn place(&self, row: usize) -> (usize, bool) {
        let (word, bit) = (row / WORD, 1_u64 << (row % WORD));
        let lower = (self.present[word] & (bit - 1)).count_ones() as usize;
        (
            usize::from(self.before[word]) + lower,
            self.present[word] & bit != 0,
        )
    }

    #[inline]
    fn get(&self, row: usize) -> Option<(f64, u16)> {
        match self.place(row) {
            (place, true) => Some((self.values[place], self.ages[place])),
            _ => None,
        }
    }

    fn put(&mut self, row: usize, value: f64, age: u16) {
        let (place, is_there) = self.place(row);
        if is_there {
            self.values[place] = value;
            self.ages[place] = age;
            return;
        }
        insert(&mut self.values, place, value);
        insert(&mut self.ages, place, age);
        self.present[row / WORD] |= 1 << (row % WORD);
        let after = &mut self.before[row / WORD + 1..];
        after.iter_mut().for_each(|count| *count += 1);
    }
}

/// Inserts into a list. A full list grows by [`GROWTH`] elements.
fn insert<T>(list: &mut Vec<T>, place: usize, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(GROWTH);
    }
    list.insert(place, item);
}

/// The newest sample of rows before one instant, block by block.
#[derive(Clone, Debug, Default)]
struct Column(Vec<Arc<Block>>);

impl Column {
    /// Value and age of a row's sample.
    #[inline]
    fn get(&self, row: RowId) -> Option<(f64, u16)> {
        let row = row.0 as usize;
        self.0.get(row / BLOCK)?.get(row % BLOCK)
    }

    /// The rows that have a sample.
    fn rows(&self) -> impl Iterator<Item = RowId> {
        let blocks = self.0.iter().enumerate();
        blocks.flat_map(|(place, block)| {
            let rows = (0..BLOCK).filter(|row| block.place(*row).1);
            rows.map(move |row| RowId(u32::try_from(place * BLOCK + row).unwrap_or(u32::MAX)))
        })
    }

    fn put(&mut self, row: RowId, value: f64, age: u16) {
        let row = row.0 as usize;
        if row / BLOCK >= self.0.len() {
            self.0.resize_with(row / BLOCK + 1, Arc::default);
        }
        Arc::make_mut(&mut self.0[row / BLOCK]).put(row % BLOCK, value, age);
    }
}

/// The columns of one signal, oldest first, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Index of the first column: its instant divided by the step.
    first: i64,
    columns: VecDeque<Column>,
    /// The last reading of each row without a reading in the columns: its device has been
    /// silent for a long time.
    last: Arc<HashMap<RowId, Reading>>,
}

/// The index of the first instant that is not before `at`.
pub(crate) fn instant_from(at: Timestamp, step_ms: i64) -> i64 {
    let millis = at.millis();
    millis.div_euclid(step_ms) + i64::from(millis.rem_euclid(step_ms) != 0)
}

pub(crate) const fn instant_time(index: i64, step_ms: i64) -> Timestamp {
    Timestamp::from_millis(index * step_ms)
}

impl Columns {
    fn at(&self, index: i64) -> Option<&Column> {
        let position = usize::try_from(index - self.first).ok()?;
        self.columns.get(position)
    }

    fn sample(&self, row: RowId, index: i64, step_ms: i64) -> Option<Reading> {
        let (value, age) = self.at(index)?.get(row)?;
        Some(Reading {
            value,
            at: Timestamp::from_millis(index * step_ms - i64::from(age)),
        })
    }

    /// The reading of `row` that counts at instant `index` of a grid of
    /// `step_ms`: its newest sample, if that is a reading and younger than
    /// `hold_ms`. It is the same at the instants before down to `since`, which may rise.
    #[inline]
    pub(crate) fn reading(
        &self,
        row: RowId,
        (index, step_ms): (i64, i64),
        hold_ms: i64,
        since: &mut i64,
    ) -> Option<Reading> {
        let farthest = (index - hold_ms / step_ms - 1).max(self.first);
        let mut at = index.min(self.first + self.len() - 1);
        while at >= farthest {
            if let Some(sample) = self.sample(row, at, step_ms) {
                let is_young = index * step_ms - sample.at.millis() < hold_ms;
                *since = if is_young { at.max(*since) } else { index };
                return (is_young && !sample.value.is_nan()).then_some(sample);
            }
            at -= 1;
        }
        *since = index;
        None
    }

    /// The newest reading at or before an instant, however old; samples that are no
    /// readings are skipped.
    pub(crate) fn last_reading(&self, row: RowId, index: i64, step_ms: i64) -> Option<Reading> {
        let last = index.min(self.first + self.len() - 1);
        let kept = (self.first..=last).rev().find_map(|at| {
            let sample = self.sample(row, at, step_ms)?;
            (!sample.value.is_nan()).then_some(sample)
        });
        kept.or_else(|| {
            let before = self.last.get(&row).copied();
            before.filter(|reading| reading.at.millis() <= index * step_ms)
        })
    }

    /// Stores a sample in its cell (NaN: it is no reading); returns whether that changed
    /// the cell. The newest reading of the cell counts, and the larger of equally new ones.
    pub(crate) fn put(&mut self, row: RowId, sample: Reading, step_ms: i64) -> bool {
        let index = instant_from(sample.at, step_ms);
        let age = index * step_ms - sample.at.millis();
        let age = u16::try_from(age).unwrap_or(u16::MAX);
        if let Some((value, known_age)) = self.at(index).and_then(|column| column.get(row)) {
            let stands = match (value.is_nan(), sample.value.is_nan()) {
                (_, true) => true,
                (true, false) => false,
                (false, false) => known_age < age || (known_age == age && value >= sample.value),
            };
            if stands {
                return false;
            }
        }
        self.make(index);
        let position = usize::try_from(index - self.first).unwrap_or(usize::MAX);
        if let Some(column) = self.columns.get_mut(position) {
            column.put(row, sample.value, age);
        }
        true
    }

    /// Creates the columns up to an instant.
    fn make(&mut self, index: i64) {
        if self.columns.is_empty() {
            self.first = index;
        }
        while self.first > index {
            self.columns.push_front(Column::default());
            self.first -= 1;
        }
        while self.first + self.len() <= index {
            self.columns.push_back(Column::default());
        }
    }

    /// Forgets the last reading of a row, of which no column has a sample.
    pub(crate) fn forget(&mut self, row: RowId) {
        if self.last.contains_key(&row) {
            Arc::make_mut(&mut self.last).remove(&row);
        }
    }

    /// Whether no sample is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.last.is_empty()
    }

    fn len(&self) -> i64 {
        i64::try_from(self.columns.len()).unwrap_or(i64::MAX)
    }

    /// Drops the columns before instant `from`. The last reading of each row is kept.
    pub(crate) fn retain_from(&mut self, from: i64, step_ms: i64) {
        while self.first < from
            && let Some(column) = self.columns.pop_front()
        {
            self.first += 1;
            let end = self.first + self.len();
            for row in column.rows() {
                let has_newer = (self.first..end).rev().any(|at| {
                    let newer = self.sample(row, at, step_ms);
                    newer.is_some_and(|sample| !sample.value.is_nan())
                });
                let ended = column.get(row).filter(|(value, _)| !value.is_nan());
                if let (false, Some((value, age))) = (has_newer, ended) {
                    let at = (self.first - 1) * step_ms - i64::from(age);
                    let at = Timestamp::from_millis(at);
                    Arc::make_mut(&mut self.last).insert(row, Reading { value, at });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: i64 = 15_000;

    /// Rows of several words and blocks.
    #[test]
    fn each_row_has_its_own_sample() {
        let rows = [512, 700, 3, 511, 64, 63, 65, 0, 1300, 128];
        let mut columns = Columns::default();
        let put = |columns: &mut Columns, row| {
            let reading = Reading {
                value: f64::from(row),
                at: Timestamp::from_secs(9),
            };
            columns.put(RowId(row), reading, STEP);
        };
        rows.into_iter().for_each(|row| put(&mut columns, row));
        let value = |columns: &Columns, row| {
            let reading = columns.reading(RowId(row), (1, STEP), 45_000, &mut 0);
            reading.map(|reading| reading.value)
        };
        for row in 0..1400 {
            let expected = rows.contains(&row).then_some(f64::from(row));
            assert_eq!(value(&columns, row), expected);
        }
        let shared = columns.clone();
        put(&mut columns, 66);
        assert_eq!(value(&columns, 66), Some(66.0));
        assert_eq!(value(&columns, 65), Some(65.0));
        assert_eq!(value(&columns, 128), Some(128.0));
        assert_eq!(value(&shared, 66), None);
    }

    fn reading(secs: i64, value: f64) -> Reading {
        let at = Timestamp::from_secs(secs);
        Reading { value, at }
    }

    const ROW: RowId = RowId(700);

    /// Columns with these samples of a row: seconds and values.
    fn columns(samples: &[(i64, f64)]) -> Columns {
        let mut columns = Columns::default();
        for (secs, value) in samples {
            columns.put(ROW, reading(*secs, *value), STEP);
        }
        columns
    }

    #[test]
    fn a_reading_counts_while_it_is_younger_than_its_validity() {
        let columns = columns(&[(60, 3.0), (-31, 1.0), (31, 2.0), (75, f64::NAN)]);
        for (instant, value, since) in [
            (-3, None, -3),
            (-2, Some(1.0), -2),
            (-1, Some(1.0), -2),
            (0, Some(1.0), -2),
            (1, None, 1),
            (2, None, 2),
            (3, Some(2.0), 3),
            (4, Some(3.0), 4),
            (5, None, 5),
            (9, None, 9),
        ] {
            let mut valid_since = i64::MIN;
            let found = columns.reading(ROW, (instant, STEP), 45_000, &mut valid_since);
            let found = (found.map(|it| it.value), valid_since);
            assert_eq!(found, (value, since), "{instant}");
        }
        for (instant, last) in [(-3, None), (-2, Some(-31)), (3, Some(31)), (9, Some(60))] {
            let found = columns.last_reading(ROW, instant, STEP);
            let secs = found.map(|it| it.at.millis() / 1000);
            assert_eq!(secs, last, "{instant}");
        }
    }

    #[test]
    fn the_newest_reading_of_a_cell_counts_and_of_equally_new_ones_the_larger() {
        for (samples, stored) in [
            (&[(8, 1.0), (9, 2.0)][..], (9, 2.0)),
            (&[(9, 2.0), (8, 3.0)], (9, 2.0)),
            (&[(9, 2.0), (9, 3.0)], (9, 3.0)),
            (&[(9, 3.0), (9, 2.0)], (9, 3.0)),
            (&[(9, f64::NAN), (8, 1.0)], (8, 1.0)),
            (&[(8, 1.0), (9, f64::NAN)], (8, 1.0)),
        ] {
            let found = columns(samples).last_reading(ROW, 9, STEP);
            assert_eq!(found, Some(reading(stored.0, stored.1)), "{samples:?}");
        }
        let mut columns = columns(&[(9, 2.0)]);
        assert!(!columns.put(ROW, reading(9, 2.0), STEP));
        assert!(columns.put(ROW, reading(9, 2.5), STEP));
        let (old, new) = (reading(8, 9.0), reading(9, 1.0));
        assert_eq!((old.better(new), new.better(old)), (new, new));
        let larger = reading(9, 2.0);
        assert_eq!((larger.better(new), new.better(larger)), (larger, larger));
    }

    #[test]
    fn the_last_reading_outlives_its_column() {
        let samples = [(10, 1.0), (25, 2.0), (70, f64::NAN)];
        let mut columns = columns(&samples);
        let other = RowId(3);
        columns.put(other, reading(10, 7.0), STEP);
        let last = |columns: &Columns, row, instant| {
            let found = columns.last_reading(row, instant, STEP);
            found.map(|it| (it.at.millis(), it.value))
        };
        for (from, count) in [(1, 5), (2, 4), (3, 3), (6, 0)] {
            columns.retain_from(from, STEP);
            assert_eq!(columns.len(), count, "{from}");
            assert_eq!(last(&columns, ROW, 9), Some((25_000, 2.0)), "{from}");
            assert_eq!(last(&columns, other, 9), Some((10_000, 7.0)), "{from}");
            // A reading that is not in a column any more is known as the last one only.
            let at_first = (from < 2).then_some((10_000, 1.0));
            assert_eq!(last(&columns, ROW, 1), at_first, "{from}");
        }
        assert!(!columns.is_empty());
        columns.forget(ROW);
        assert_eq!(last(&columns, ROW, 9), None);
        columns.forget(other);
        assert!(columns.is_empty());
    }
}
