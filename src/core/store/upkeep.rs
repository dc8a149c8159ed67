//! What happens to the store between samples: forgetting, new intervals,
//! views for a snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::super::frame::{Frame, Pace};
use super::super::grid::RowId;
use super::super::series::{Device, Scheme, SeriesInfo};
use super::super::signal::SignalId;
use super::super::targets::{JobId, TargetId, Targets};
use super::super::time::Timestamp;
use super::{Heard, Job, Row, Series, SeriesId, Store};

impl Store {
    /// The scrape jobs, in the order they were first seen.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Whether the target of a series has lately reported a utilisation of whole
    /// GPUs.
    #[must_use]
    pub fn reports(&self, info: &SeriesInfo, signal: SignalId) -> bool {
        let target = self.target_of(info);
        target.is_some_and(|target| self.targets.reports(target, signal, self.oldest))
    }

    /// The target of a series, if others of its are known.
    pub(super) fn target_of(&self, info: &SeriesInfo) -> Option<TargetId> {
        let live = |job: &Job| job.series > 0 && job.name == info.job;
        let job = self.jobs.iter().position(live)?;
        let job = JobId::try_from(job).ok()?;
        self.targets.find(job, &info.source, &info.instance)
    }

    /// The series that say something of the same device and owner.
    #[must_use]
    pub fn siblings(&self, info: &SeriesInfo) -> &[SeriesId] {
        let key = (info.device.clone(), info.owner.clone());
        let row = self.row_ids.get(&key);
        let row = row.and_then(|id| self.rows.get(id.0 as usize)?.as_ref());
        row.map_or(&[], |row| &row.series)
    }

    /// Targets that are heard and do not report a utilisation of whole GPUs, and
    /// which of the two.
    #[must_use]
    pub fn without_percents(&self) -> BTreeSet<(TargetId, usize)> {
        self.targets.without_percents(self.oldest)
    }

    /// Whether a series of the signal is kept.
    #[must_use]
    pub fn has_signal(&self, signal: SignalId) -> bool {
        self.series_of
            .get(signal.index())
            .is_some_and(|count| count.all > 0)
    }

    /// Whether all series of the signal that are kept say by their labels that
    /// they are a MIG instance's.
    #[must_use]
    pub fn is_of_mig_alone(&self, signal: SignalId) -> bool {
        let count = self.series_of.get(signal.index());
        count.is_some_and(|count| count.all > 0 && count.all == count.labelled_mig)
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

    /// When a row was heard last.
    #[must_use]
    pub fn newest(&self, row: RowId) -> Timestamp {
        self.heard
            .get(row.0 as usize)
            .map_or(Timestamp::MIN, |heard| heard.newest)
    }

    /// Changes whenever a row comes, goes or changes its labels.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Forgets instants older than the retained window, counted from the
    /// horizon that is furthest behind. Call before a batch is applied.
    pub fn advance(&mut self, now: Timestamp) {
        let horizon = self.targets.earliest_horizon(now, self.retain_ms);
        let until = horizon.map_or(now, |horizon| horizon.min(now));
        let from = until.millis() - self.retain_ms;
        self.oldest = Timestamp::from_millis(from);
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
        let limit = now.millis() - self.retain_ms - self.step_ms;
        let ended = |series: &Series| series.newest.at.millis() < limit;
        for (index, slot) in (0_u32..).zip(&mut self.series) {
            if let Some(series) = slot.take_if(|series| ended(series)) {
                self.jobs[usize::from(series.job)].series -= 1;
                if let Some(count) = self.series_of.get_mut(series.signal.index()) {
                    count.all -= 1;
                    count.labelled_mig -= usize::from(series.labelled_mig);
                }
                self.targets.release(series.target);
                gone.insert(SeriesId(index));
                self.free_series.push(SeriesId(index));
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
            } else if row.retell(&self.series) {
                self.generation += 1;
            }
        }
        for row in bereft {
            self.count_siblings(row);
        }
        gone
    }

    /// Puts the grid on another step. What is known stays, as far as the new
    /// grid can show it; a finer one is filled from history by the caller.
    pub fn regrid(&mut self, step_ms: i64) {
        let step_ms = step_ms.max(1);
        for columns in &mut self.signals {
            *columns = columns.with_step(self.step_ms, step_ms);
        }
        self.step_ms = step_ms;
    }

    /// Forgets all samples: the clock went back.
    pub fn clear(&mut self) {
        for columns in &mut self.signals {
            *columns = super::Columns::default();
        }
        for job in &mut self.jobs {
            job.original = super::Original::default();
        }
        for series in self.series.iter_mut().flatten() {
            series.newest = super::NO_SAMPLE;
        }
        self.heard.fill(Heard::NEVER);
        self.targets.clear();
        self.generation += 1;
    }

    /// Sources and targets.
    #[must_use]
    pub const fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The same, to be told what was read.
    pub const fn targets_mut(&mut self) -> &mut Targets {
        &mut self.targets
    }

    /// How many devices each cadence max(S, I) has, milliseconds, of those heard
    /// between these times and first `known_by` then, each once.
    #[must_use]
    pub fn devices_by_cadence(
        &self,
        since: Timestamp,
        until: Timestamp,
        known_by: Timestamp,
    ) -> BTreeMap<i64, usize> {
        let mut cadence_of = Vec::new();
        for (id, _, timing) in self.targets.iter() {
            let index = id.0 as usize;
            cadence_of.resize(cadence_of.len().max(index + 1), None);
            cadence_of[index] = self.targets.is_known(id).then_some(timing.cadence_ms());
        }
        let last = until.millis().div_euclid(self.step_ms);
        let within_ms = until.millis() - since.millis();
        let has_sample = |row| {
            let mut signals = self.signals.iter();
            signals.any(|columns| columns.has_sample(row, last, self.step_ms, within_ms))
        };
        // The smallest cadence of each, and when it was first heard.
        let mut devices: HashMap<&Device, (i64, Timestamp)> = HashMap::new();
        for ((id, row), heard) in (0..).zip(&self.rows).zip(&self.heard) {
            let Some(row) = row.as_ref() else {
                continue;
            };
            let counts_then = heard.first <= until
                && heard.newest >= since
                && (heard.newest <= until || has_sample(RowId(id)));
            let of_targets = row.targets.iter();
            let cadences = of_targets.filter_map(|id| cadence_of[id.0 as usize]);
            let cadence = cadences.min().filter(|_| counts_then).unwrap_or(i64::MAX);
            let known = devices
                .entry(&row.device)
                .or_insert((i64::MAX, heard.first));
            *known = (known.0.min(cadence), known.1.min(heard.first));
        }
        let mut counts = BTreeMap::new();
        for (cadence, first) in devices.into_values() {
            if cadence < i64::MAX && first <= known_by {
                *counts.entry(cadence).or_default() += 1;
            }
        }
        counts
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
    pub fn frame(&self, now: Timestamp, pace: Pace) -> Frame {
        let since = Timestamp::from_millis(now.millis() - self.retain_ms);
        Frame::new(
            (now, pace),
            self.step_ms,
            self.signals.clone(),
            self.original(),
            self.targets.view(now, pace.poll_ms + pace.round_ms, since),
            self.heard.clone(),
        )
    }
}
