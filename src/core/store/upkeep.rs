//! What happens to the store between samples: forgetting, new intervals,
//! views for a snapshot.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::super::frame::Frame;
use super::super::grid::RowId;
use super::super::series::Scheme;
use super::super::signal::SignalId;
use super::super::time::Timestamp;
use super::super::timing::{ExporterRhythm, Timing};
use super::{Job, Row, SeriesId, Store, told};

impl Store {
    /// The scrape jobs, in the order they were first seen.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The index of a series' job in [`Store::jobs`].
    #[must_use]
    pub fn job_of(&self, id: SeriesId) -> Option<usize> {
        let series = self.series.get(id.0 as usize)?.as_ref()?;
        Some(usize::from(series.job))
    }

    /// The step of the grid, milliseconds.
    #[must_use]
    pub fn step_ms(&self) -> i64 {
        self.step_ms
    }

    /// How many series are known.
    #[must_use]
    pub fn series_len(&self) -> usize {
        self.series.len() - self.free_series.len()
    }

    /// The rows in use.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &Arc<Row>)> {
        (0..)
            .map(RowId)
            .zip(&self.rows)
            .filter_map(|(id, row)| Some((id, row.as_ref()?)))
    }

    /// Changes whenever a row comes, goes or changes its labels.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Forgets instants older than the retained window. Call before a batch
    /// is applied.
    pub fn advance(&mut self, now: Timestamp) {
        let from = now.millis() - self.retain_ms;
        let index = from.div_euclid(self.step_ms);
        for columns in &mut self.signals {
            columns.retain_from(index);
        }
        self.original.retain_from(Timestamp::from_millis(from));
    }

    /// Forgets series whose newest sample is older than anything retained, and
    /// rows left without series. Returns the series forgotten.
    pub fn sweep(&mut self, now: Timestamp) -> HashSet<SeriesId> {
        let mut gone = HashSet::new();
        for (index, slot) in (0_u32..).zip(&mut self.series) {
            let Some(series) = slot else { continue };
            let fresh_ms = self.jobs[usize::from(series.job)].timing.fresh_ms();
            let limit = now.millis()
                - self.retain_ms
                - self.fresh_override_ms.unwrap_or(fresh_ms)
                - self.step_ms;
            if series
                .ring
                .newest()
                .is_none_or(|newest| newest.at.millis() < limit)
            {
                self.jobs[usize::from(series.job)].series -= 1;
                gone.insert(SeriesId(index));
                self.free_series.push(SeriesId(index));
                *slot = None;
            }
        }
        if gone.is_empty() {
            return gone;
        }
        let mut bereft = Vec::new();
        for (index, slot) in (0_u32..).zip(&mut self.rows) {
            let Some(row) = slot else { continue };
            if !row.series.iter().any(|series| gone.contains(series)) {
                continue;
            }
            bereft.push(RowId(index));
            let row = Arc::make_mut(row);
            row.series.retain(|series| !gone.contains(series));
            if row.series.is_empty() {
                self.row_ids
                    .remove(&(row.device.clone(), row.owner.clone()));
                self.free_rows.push(RowId(index));
                *slot = None;
                self.generation += 1;
            } else if row.retell(told::of(&row.series.clone(), &self.series)) {
                self.generation += 1;
            }
        }
        for row in bereft {
            self.count_siblings(row);
        }
        gone
    }

    /// Puts the grid on another step and the jobs on other intervals. All
    /// readings are dropped: the caller refills the window from history.
    pub fn regrid(&mut self, step_ms: i64, timings: &[Timing]) {
        self.step_ms = step_ms.max(1);
        for (job, timing) in self.jobs.iter_mut().zip(timings) {
            job.timing = *timing;
        }
        for columns in &mut self.signals {
            *columns = super::Columns::default();
        }
        self.original = super::Original::default();
        for series in self.series.iter_mut().flatten() {
            series.ring = super::Ring::default();
        }
        for index in 0..self.rows.len() {
            let Some(job) = self.rows[index].as_ref().map(|row| row.job) else {
                continue;
            };
            let fresh_ms = self.fresh_ms(job);
            if let Some(row) = self.rows[index].as_mut()
                && row.fresh_ms != fresh_ms
            {
                Arc::make_mut(row).fresh_ms = fresh_ms;
            }
        }
        self.generation += 1;
    }

    /// The exporter interval that a job's readings show, if they change often
    /// enough to show one and the grid is fine enough to tell.
    #[must_use]
    pub fn exporter_ms(&self, job: usize, now: Timestamp) -> Option<i64> {
        if self.jobs.get(job)?.timing.scrape_ms != self.step_ms {
            return None;
        }
        let last = now.millis().div_euclid(self.step_ms);
        let first = (now.millis() - self.retain_ms).div_euclid(self.step_ms) + 1;
        let mut rhythm = ExporterRhythm::default();
        for signal in [
            SignalId::MEM_COPY_UTIL,
            SignalId::DRAM_ACTIVE,
            SignalId::GPU_UTIL,
        ] {
            let Some(columns) = self.signals.get(signal.index()) else {
                continue;
            };
            for row in self.sample(job) {
                let readings =
                    (first..=last).filter_map(|index| columns.get(row, index, self.step_ms));
                rhythm.observe(readings.map(|reading| reading.value));
            }
        }
        rhythm.exporter_ms(self.step_ms)
    }

    /// Keeps readings for another length of time from now on.
    pub fn retain_for(&mut self, retain_ms: i64) {
        self.retain_ms = retain_ms;
    }

    /// How owners are named in a job's series: each scheme once.
    #[must_use]
    pub fn schemes(&self, job: usize) -> BTreeSet<Scheme> {
        let rows = self.sample(job);
        rows.filter_map(|row| self.rows[row.0 as usize].as_ref()?.scheme)
            .collect()
    }

    /// Some rows of a job.
    fn sample(&self, job: usize) -> impl Iterator<Item = RowId> {
        let rows = self.jobs.get(job).map_or(&[][..], |job| &job.sample);
        rows.iter().copied().filter(move |row| {
            let row = self.rows.get(row.0 as usize).and_then(Option::as_ref);
            row.is_some_and(|row| usize::from(row.job) == job)
        })
    }

    /// An immutable view of all readings.
    #[must_use]
    pub fn frame(&self, now: Timestamp) -> Frame {
        Frame::new(
            now,
            self.step_ms,
            self.signals.clone(),
            self.original.clone(),
        )
    }
}
