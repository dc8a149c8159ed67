//! All samples of the retained past, updated by batches.
//!
//! A *series* is one of Prometheus; a *row* is a device as held by one owner. Several
//! series may feed one row (replicas, second jobs, sharing): the newest reading counts, and
//! the larger of equally new ones. Each sample is written once, into the cell of the first
//! instant that is not before it. How long it counts from there is decided when it is read,
//! because this depends on the target's current scrape interval and lateness.
//!
//! Memory: a kept sample takes some four to eight bytes, depending on its digits. With
//! S = 15 s and a window of five minutes these are some 110 to 220 bytes for each device and
//! signal. A series takes some 80 bytes more. The labels are stored once for each row.
//!
//! Known series need no allocation per sample.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use super::batch::Sample;
use super::frame::SampleTimes;
use super::grid::{Columns, RowId};
use super::series::{Device, LabelFacts, Owner, SeriesInfo};
use super::signal::{SignalId, Unit};
use super::targets::{Intervals, TargetId, Targets};
use super::unit::Scale;
use apimachinery::time::Timestamp;

mod apply;
mod label_facts;
mod units;
mod upkeep;

/// Index of a series in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesId(u32);

/// A device as held by one owner.
#[derive(Clone, Debug)]
pub struct DeviceRow {
    pub device: Device,
    /// The pod the series name.
    pub owner: Option<Owner>,
    /// What the labels of its newest series contain. Of several series that are still read:
    /// all node names, the smallest set of labels, and the cluster that all name.
    pub label_facts: Arc<LabelFacts>,
    /// The targets that feed it, each once.
    pub targets: Vec<TargetId>,
    series: Vec<SeriesId>,
    /// Whether its series differ in labels or target.
    is_divided: bool,
}

#[derive(Debug)]
struct Series {
    signal: SignalId,
    unit: Unit,
    row: RowId,
    target: TargetId,
    label_facts: Arc<LabelFacts>,
    newest: Sample,
    /// The target's round of the newest sample.
    round: u32,
}

/// No sample yet.
const NO_SAMPLE: Sample = Sample {
    at: Timestamp::MIN,
    value: f64::NAN,
};

/// The outcome of a batch's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// New and valid.
    pub accepted: u64,
    /// Known already (polls overlap).
    pub repeated: u64,
    /// New, but no reading: sentinel, not a number, out of range.
    pub invalid: u64,
    /// Further back than [`StoreSettings::back_ms`].
    pub too_old: u64,
    pub future: u64,
}

impl std::ops::AddAssign for Applied {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.repeated += other.repeated;
        self.invalid += other.invalid;
        self.too_old += other.too_old;
        self.future += other.future;
    }
}

/// All readings. It has one writer; snapshots share its columns.
#[derive(Debug)]
pub struct Store {
    settings: StoreSettings,
    rows: Vec<Option<Arc<DeviceRow>>>,
    heard: Vec<SampleTimes>,
    free_rows: Vec<RowId>,
    /// Finds a row by its device and owner, which are stored in the row.
    row_ids: HashTable<RowId>,
    hasher: RandomState,
    series: Vec<Option<Series>>,
    free_series: Vec<SeriesId>,
    targets: Targets,
    signals: Vec<Columns>,
    /// How many series each signal has.
    series_of: Vec<usize>,
    /// Samples up to this time are not kept.
    oldest: Timestamp,
    /// A series with a sample since this time counts as heard.
    recent: Timestamp,
    /// Counts changes of the set of rows and of their labels.
    generation: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct StoreSettings {
    /// The time between instants, milliseconds.
    pub step_ms: i64,
    /// The longest window plus the hold of an activity, milliseconds.
    pub window_ms: i64,
    /// How far back samples are taken in, milliseconds.
    pub back_ms: i64,
    /// The unit of percents, if configured.
    pub scale: Option<Scale>,
    /// How many signals are polled.
    pub signals: usize,
    /// Configured intervals.
    pub intervals: Intervals,
}

impl Store {
    /// An empty store.
    pub(crate) fn new(settings: StoreSettings) -> Self {
        Self {
            settings,
            rows: Vec::new(),
            heard: Vec::new(),
            free_rows: Vec::new(),
            row_ids: HashTable::new(),
            hasher: RandomState::new(),
            series: Vec::new(),
            free_series: Vec::new(),
            targets: Targets::new(settings.intervals),
            signals: vec![Columns::default(); settings.signals],
            series_of: vec![0; settings.signals],
            oldest: Timestamp::MIN,
            recent: Timestamp::MIN,
            generation: 0,
        }
    }

    /// Registers a series. Its samples are passed to [`Store::apply`] under the id
    /// returned.
    pub(crate) fn register(&mut self, info: &SeriesInfo) -> SeriesId {
        let target = self.targets.register(info);
        let label_facts = self.label_facts(info);
        let row = self.row(info, Arc::clone(&label_facts), target);
        let series = Series {
            signal: info.signal,
            unit: info.unit,
            row,
            target,
            label_facts,
            newest: NO_SAMPLE,
            round: 0,
        };
        if let Some(count) = self.series_of.get_mut(info.signal.index()) {
            *count += 1;
        }
        let id = if let Some(id) = self.free_series.pop() {
            self.series[id.0 as usize] = Some(series);
            id
        } else {
            self.series.push(Some(series));
            SeriesId(index32(self.series.len() - 1))
        };
        self.join(row, id);
        id
    }

    /// Adds a series to a row.
    fn join(&mut self, row: RowId, id: SeriesId) {
        let Some(row) = self.rows[row.0 as usize].as_mut() else {
            return;
        };
        let row = Arc::make_mut(row);
        row.series.push(id);
        let of = |id: &SeriesId| {
            let series = self.series.get(id.0 as usize)?.as_ref()?;
            Some((Arc::as_ptr(&series.label_facts), series.target))
        };
        // The signals of a device mostly have the same labels.
        let repeats = row.series.len() > 1 && row.series.first().and_then(of) == of(&id);
        if !repeats && row.combine_labels(&self.series, &self.targets) {
            self.generation += 1;
        }
    }

    fn row(&mut self, info: &SeriesInfo, label_facts: Arc<LabelFacts>, target: TargetId) -> RowId {
        if let Some(id) = self.row_of(&info.device, info.owner.as_ref()) {
            return id;
        }
        self.generation += 1;
        let row = Arc::new(DeviceRow {
            device: info.device.clone(),
            owner: info.owner.clone(),
            label_facts,
            targets: vec![target],
            series: Vec::new(),
            is_divided: false,
        });
        let id = if let Some(id) = self.free_rows.pop() {
            self.rows[id.0 as usize] = Some(row);
            self.heard[id.0 as usize] = SampleTimes::NEVER;
            // Columns of an ended source may still hold samples of the row's former
            // device.
            let step_ms = self.settings.step_ms;
            for columns in &mut self.signals {
                columns.forget(id, step_ms, |_| true);
            }
            id
        } else {
            self.rows.push(Some(row));
            self.heard.push(SampleTimes::NEVER);
            RowId(index32(self.rows.len() - 1))
        };
        let (rows, hasher) = (&self.rows, &self.hasher);
        let hash_of = |id: &RowId| {
            let row = rows[id.0 as usize].as_ref();
            row.map_or(0, |row| hasher.hash_one((&row.device, row.owner.as_ref())))
        };
        self.row_ids.insert_unique(hash_of(&id), id, hash_of);
        id
    }

    /// The row of a device as held by an owner.
    fn row_of(&self, device: &Device, owner: Option<&Owner>) -> Option<RowId> {
        let is_it = |id: &RowId| {
            let row = self.rows[id.0 as usize].as_ref();
            row.is_some_and(|row| row.device == *device && row.owner.as_ref() == owner)
        };
        let hash = self.hasher.hash_one((device, owner));
        self.row_ids.find(hash, is_it).copied()
    }
}

fn index32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
