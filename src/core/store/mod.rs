//! All readings of the retained past, updated by batches of raw samples.
//!
//! A *series* is what Prometheus has; a *row* is a device as held by one owner.
//! Several series may feed one row (replicas, second jobs, sharing): the newest
//! reading counts, of equally new ones the larger. A sample is written into the
//! instants it counts for as soon as it is seen: from the first instant at or
//! after it up to the next sample or the freshness bound F.
//!
//! Memory: a series keeps its newest `ceil(F / S) + 2` raw samples of 16 bytes;
//! a row keeps 12 bytes an instant and signal for the retained window. With
//! S = I = 15 s and five minutes that is 80 + 240 bytes a device and signal,
//! beside some 200 bytes of bookkeeping and the labels (once a row).
//!
//! Nothing here allocates per sample once the series are known.

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::Sample;
use super::grid::{Columns, RowId};
use super::labels::Labels;
use super::original::Original;
use super::rhythm::Rhythm;
use super::ring::Ring;
use super::series::{Device, NodeName, Owner, Scheme, SeriesInfo};
use super::signal::{SignalId, Unit};
use super::timing::{ASSUMED, Overrides, Timing};
use super::validity::PercentEvidence;

mod apply;
mod told;
mod upkeep;

use told::Told;

/// Index of a series in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesId(u32);

/// Index of a scrape job.
type JobId = u16;

/// More jobs than this share one judgement: intervals are judged job by job,
/// and a cluster has a handful that scrape GPUs.
const MOST_JOBS: usize = 256;

/// A device as held by one owner.
#[derive(Clone, Debug)]
pub struct Row {
    /// The device.
    pub device: Device,
    /// The pod the series name.
    pub owner: Option<Owner>,
    /// How the owner was read.
    pub scheme: Option<Scheme>,
    /// Whether a series of the row proves by itself that the pod holds it.
    pub proven: bool,
    /// Whether the labels alone make the owner look like the exporter itself.
    pub suspect: bool,
    /// Candidates for the node, best first.
    pub nodes: Vec<NodeName>,
    /// The labels of its series; where they differ the smaller value.
    pub labels: Arc<Labels>,
    /// How long after its newest sample its value is served, milliseconds: the
    /// shortest of the jobs that feed it.
    pub lasting_ms: i64,
    series: Vec<SeriesId>,
}

#[derive(Debug)]
struct Series {
    signal: SignalId,
    unit: Unit,
    row: RowId,
    job: JobId,
    told: Arc<Told>,
    /// Whether no other series feeds the same row with the same signal.
    alone: bool,
    ring: Ring,
    /// F as it was when its samples were last written, milliseconds.
    written_fresh_ms: i64,
}

/// A scrape job and what was found out about it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub name: Arc<str>,
    /// Its intervals, as believed now.
    pub timing: Timing,
    rhythm: Rhythm,
    /// Whether its percent fields arrive as 0–1.
    pub percent_as_ratio: bool,
    evidence: PercentEvidence,
    /// The original exporter's number, its part.
    original: Original,
    /// How many series it has; without any it is forgotten.
    pub series: usize,
}

impl Job {
    fn new(name: Arc<str>, overrides: Overrides, percent_as_ratio: Option<bool>) -> Self {
        let rhythm = Rhythm::new(overrides);
        Self {
            name,
            timing: rhythm.timing(),
            rhythm,
            percent_as_ratio: percent_as_ratio.unwrap_or(false),
            evidence: PercentEvidence::default(),
            original: Original::default(),
            series: 0,
        }
    }

    /// Whether its intervals are known.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.rhythm.is_settled()
    }
}

/// What became of the samples handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// New and valid.
    pub accepted: u64,
    /// Known already (polls overlap).
    pub repeated: u64,
    /// New, but no reading: sentinel, not a number, out of range.
    pub invalid: u64,
    /// Older than anything retained.
    pub too_old: u64,
    /// From the future.
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

/// All readings. One writer; snapshots share its columns.
#[derive(Debug)]
pub struct Store {
    step_ms: i64,
    retain_ms: i64,
    fresh_override_ms: Option<i64>,
    percent_as_ratio: Option<bool>,
    rows: Vec<Option<Arc<Row>>>,
    free_rows: Vec<RowId>,
    row_ids: HashMap<(Device, Option<Owner>), RowId>,
    series: Vec<Option<Series>>,
    free_series: Vec<SeriesId>,
    jobs: Vec<Job>,
    signals: Vec<Columns>,
    overrides: Overrides,
    /// Counts changes of the set of rows.
    generation: u64,
    scratch: Vec<Sample>,
}

/// What the store is told once.
#[derive(Clone, Copy, Debug)]
pub struct StoreSettings {
    /// How far back readings are kept, milliseconds.
    pub retain_ms: i64,
    /// F, if set.
    pub fresh_ms: Option<i64>,
    /// Whether percent fields are ratios, if set.
    pub percent_as_ratio: Option<bool>,
    /// How many signals are polled.
    pub signals: usize,
    /// Intervals that are set.
    pub overrides: Overrides,
}

impl Store {
    /// An empty store with a grid of the assumed step.
    #[must_use]
    pub fn new(settings: StoreSettings) -> Self {
        Self {
            step_ms: ASSUMED.step_ms(),
            retain_ms: settings.retain_ms,
            fresh_override_ms: settings.fresh_ms,
            percent_as_ratio: settings.percent_as_ratio,
            rows: Vec::new(),
            free_rows: Vec::new(),
            row_ids: HashMap::new(),
            series: Vec::new(),
            free_series: Vec::new(),
            jobs: Vec::new(),
            signals: vec![Columns::default(); settings.signals],
            overrides: settings.overrides,
            generation: 0,
            scratch: Vec::new(),
        }
    }

    /// Makes a series known. Its samples are handed to [`Store::apply`] under
    /// the id returned.
    pub fn register(&mut self, info: &SeriesInfo) -> SeriesId {
        let job = self.job(&info.job);
        let told = self.told(info);
        let row = self.row(info, &told, job);
        let series = Series {
            signal: info.signal,
            unit: info.unit,
            row,
            job,
            told,
            alone: true,
            ring: Ring::default(),
            written_fresh_ms: 0,
        };
        self.jobs[usize::from(job)].series += 1;
        let id = if let Some(id) = self.free_series.pop() {
            self.series[id.0 as usize] = Some(series);
            id
        } else {
            self.series.push(Some(series));
            SeriesId(index32(self.series.len() - 1))
        };
        if let Some(row) = self.rows[row.0 as usize].as_mut() {
            Arc::make_mut(row).series.push(id);
        }
        self.count_siblings(row);
        self.refresh(row);
        id
    }

    /// Notes for each series of a row whether it is the only one of its signal.
    fn count_siblings(&mut self, row: RowId) {
        let Some(row) = self.rows[row.0 as usize].as_ref() else {
            return;
        };
        let signal_of = |id: &SeriesId| {
            self.series[id.0 as usize]
                .as_ref()
                .map(|series| series.signal)
        };
        let signals: Vec<_> = row.series.iter().map(signal_of).collect();
        for (id, signal) in row.series.iter().zip(&signals) {
            if let Some(series) = self.series[id.0 as usize].as_mut() {
                series.alone = signals.iter().filter(|other| *other == signal).count() == 1;
            }
        }
    }

    /// The job of that name; a forgotten one's place is taken first.
    fn job(&mut self, name: &Arc<str>) -> JobId {
        let live = |job: &Job| job.series > 0 && job.name == *name;
        let known = self.jobs.iter().position(live);
        let index = known.unwrap_or_else(|| {
            let job = Job::new(Arc::clone(name), self.overrides, self.percent_as_ratio);
            let vacant = self.jobs.iter().position(|job| job.series == 0);
            match vacant {
                Some(index) => {
                    self.jobs[index] = job;
                    index
                }
                None if self.jobs.len() < MOST_JOBS => {
                    self.jobs.push(job);
                    self.jobs.len() - 1
                }
                None => MOST_JOBS - 1,
            }
        });
        JobId::try_from(index).unwrap_or(JobId::MAX)
    }

    /// Puts right how long a row's value is served: the shortest of the jobs that
    /// feed it, so that nothing is believed longer than any of them allows.
    fn refresh(&mut self, id: RowId) {
        let Some(row) = self.rows[id.0 as usize].as_ref() else {
            return;
        };
        let jobs = row
            .series
            .iter()
            .filter_map(|id| Some(self.series[id.0 as usize].as_ref()?.job));
        let shortest = jobs.map(|job| self.lasting_ms(job)).min();
        if let (Some(lasting_ms), Some(row)) = (shortest, self.rows[id.0 as usize].as_mut())
            && row.lasting_ms != lasting_ms
        {
            Arc::make_mut(row).lasting_ms = lasting_ms;
            self.generation += 1;
        }
    }

    fn row(&mut self, info: &SeriesInfo, told: &Told, job: JobId) -> RowId {
        let key = (info.device.clone(), info.owner.clone());
        if let Some(id) = self.row_ids.get(&key) {
            let id = *id;
            if let Some(row) = self.rows[id.0 as usize].as_mut()
                && Arc::make_mut(row).join(told)
            {
                self.generation += 1;
            }
            return id;
        }
        self.generation += 1;
        let row = Arc::new(Row {
            device: info.device.clone(),
            owner: info.owner.clone(),
            scheme: info.scheme,
            proven: info.proven,
            suspect: info.suspect,
            nodes: info.nodes.clone(),
            labels: Arc::clone(&told.labels),
            lasting_ms: self.lasting_ms(job),
            series: Vec::new(),
        });
        let id = if let Some(id) = self.free_rows.pop() {
            self.rows[id.0 as usize] = Some(row);
            id
        } else {
            self.rows.push(Some(row));
            RowId(index32(self.rows.len() - 1))
        };
        self.row_ids.insert(key, id);
        id
    }

    fn lasting_ms(&self, job: JobId) -> i64 {
        let timing = self.jobs[usize::from(job)].timing;
        timing.lasting_ms(self.fresh_ms(job), self.step_ms)
    }

    fn fresh_ms(&self, job: JobId) -> i64 {
        let detected = self.jobs[usize::from(job)].timing.fresh_ms();
        self.fresh_override_ms.unwrap_or(detected)
    }
}

fn index32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
