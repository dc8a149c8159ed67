//! What happens to the store between samples: forgetting, new intervals,
//! views for a snapshot.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::super::frame::Frame;
use super::super::grid::RowId;
use super::super::rhythm::Shown;
use super::super::series::Scheme;
use super::super::time::Timestamp;
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
        for job in &mut self.jobs {
            job.original.retain_from(Timestamp::from_millis(from));
        }
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
            self.refresh(row);
        }
        gone
    }

    /// Puts the grid on another step. All readings are dropped: the caller
    /// refills the window from history.
    pub fn regrid(&mut self, step_ms: i64) {
        self.step_ms = step_ms.max(1);
        for columns in &mut self.signals {
            *columns = super::Columns::default();
        }
        for job in &mut self.jobs {
            job.original = super::Original::default();
            job.rhythm.restart();
        }
        for series in self.series.iter_mut().flatten() {
            series.ring = super::Ring::default();
        }
        self.refresh_all();
        self.generation += 1;
    }

    /// Weighs what a job's samples showed of its intervals; whether something
    /// new is believed from now on. Instants written before keep the F they
    /// were written with.
    pub fn judge(&mut self, job: usize, now: Timestamp, shown: Shown) -> bool {
        let Some(known) = self.jobs.get_mut(job) else {
            return false;
        };
        if known.series == 0 || !known.rhythm.judge(now, shown) {
            return false;
        }
        known.timing = known.rhythm.timing();
        self.refresh_all();
        true
    }

    fn refresh_all(&mut self) {
        for index in 0..self.rows.len() {
            self.refresh(RowId(super::index32(index)));
        }
    }

    /// The series that are applied from now on are of another signal.
    pub fn turn(&mut self) {
        for job in &mut self.jobs {
            job.rhythm.turn();
        }
    }

    /// Keeps readings for another length of time from now on.
    pub fn retain_for(&mut self, retain_ms: i64) {
        self.retain_ms = retain_ms;
    }

    /// How owners are named in a job's series: each scheme once.
    #[must_use]
    pub fn schemes(&self, job: usize) -> BTreeSet<Scheme> {
        let of_job = self.series.iter().flatten();
        let rows = of_job.filter(|series| usize::from(series.job) == job);
        rows.filter_map(|series| self.rows[series.row.0 as usize].as_ref()?.scheme)
            .collect()
    }

    /// The original exporter's number over all jobs, in percent.
    fn original(&self) -> super::Original {
        let mut whole = super::Original::default();
        for job in &self.jobs {
            let factor = if job.percent_as_ratio { 100 } else { 1 };
            whole.add(&job.original, factor);
        }
        whole
    }

    /// An immutable view of all readings.
    #[must_use]
    pub fn frame(&self, now: Timestamp) -> Frame {
        Frame::new(now, self.step_ms, self.signals.clone(), self.original())
    }
}
