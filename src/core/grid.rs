//! Readings on the grid of instants: one column per signal and instant.
//!
//! A column holds, for every row (a device as held by an owner), the reading
//! that counts at that instant and its age. Columns are shared with published
//! snapshots; the writer copies a column only if a snapshot still holds it.

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
    /// instant: the newer one, of equally new ones the larger
    /// (`dcgm.md` §2.4).
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        let newer = other.at > self.at || (other.at == self.at && other.value > self.value);
        if newer { other } else { self }
    }
}

/// The readings of all rows at one instant: 12 bytes a row.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// NaN where the row has no reading.
    values: Vec<f64>,
    /// Milliseconds from the sample to the instant.
    ages: Vec<u32>,
}

impl Column {
    /// The reading of a row; `instant` is the column's.
    #[must_use]
    pub fn get(&self, row: RowId, instant: Timestamp) -> Option<Reading> {
        let value = *self.values.get(row.0 as usize)?;
        let age = *self.ages.get(row.0 as usize)?;
        (!value.is_nan()).then(|| Reading {
            value,
            at: Timestamp::from_millis(instant.millis() - i64::from(age)),
        })
    }

    fn set(&mut self, row: RowId, instant: Timestamp, reading: Option<Reading>) {
        let index = row.0 as usize;
        if index >= self.values.len() {
            if reading.is_none() {
                return;
            }
            self.values.resize(index + 1, f64::NAN);
            self.ages.resize(index + 1, 0);
        }
        let (value, age) = reading.map_or((f64::NAN, 0), |reading| {
            let age = instant.millis() - reading.at.millis();
            (reading.value, u32::try_from(age).unwrap_or(u32::MAX))
        });
        self.values[index] = value;
        self.ages[index] = age;
    }
}

/// The columns of one signal, oldest first, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Index of the first column: its instant divided by the step.
    first: i64,
    columns: VecDeque<Arc<Column>>,
}

impl Columns {
    /// The column of instant number `index`.
    #[must_use]
    pub fn at(&self, index: i64) -> Option<&Column> {
        let position = usize::try_from(index - self.first).ok()?;
        self.columns.get(position).map(AsRef::as_ref)
    }

    /// The reading of `row` at instant number `index` of a grid of `step_ms`.
    #[must_use]
    pub fn get(&self, row: RowId, index: i64, step_ms: i64) -> Option<Reading> {
        self.at(index)?
            .get(row, Timestamp::from_millis(index * step_ms))
    }

    /// Sets the reading of `row` at instant `index`; instants before the first
    /// kept one are ignored.
    pub fn set(
        &mut self,
        row: RowId,
        index: i64,
        step_ms: i64,
        reading: Option<Reading>,
        rows: usize,
    ) {
        if self.columns.is_empty() && reading.is_some() {
            self.first = index;
        }
        if index < self.first {
            let Some(reading) = reading else { return };
            self.prepend(index, rows);
            self.write(row, index, step_ms, Some(reading));
            return;
        }
        while self.first + self.len() <= index {
            if reading.is_none() {
                return;
            }
            self.columns.push_back(Arc::new(Column::with_rows(rows)));
        }
        self.write(row, index, step_ms, reading);
    }

    fn write(&mut self, row: RowId, index: i64, step_ms: i64, reading: Option<Reading>) {
        let position = usize::try_from(index - self.first).unwrap_or(usize::MAX);
        if let Some(column) = self.columns.get_mut(position) {
            Arc::make_mut(column).set(row, Timestamp::from_millis(index * step_ms), reading);
        }
    }

    fn prepend(&mut self, index: i64, rows: usize) {
        while self.first > index {
            self.columns.push_front(Arc::new(Column::with_rows(rows)));
            self.first -= 1;
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

impl Column {
    fn with_rows(rows: usize) -> Self {
        Self {
            values: vec![f64::NAN; rows],
            ages: vec![0; rows],
        }
    }
}
