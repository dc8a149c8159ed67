//! Samples into instants.

use std::collections::HashSet;

use super::super::batch::Sample;
use super::super::grid::{Reading, RowId};
use super::super::original::{Contribution, STEP_MS as ORIGINAL_STEP_MS};
use super::super::ring;
use super::super::signal::{SignalId, Unit};
use super::super::time::Timestamp;
use super::super::timing::ASSUMED;
use super::super::validity;
use super::{Applied, Series, SeriesId, Store};

/// A sample this far ahead of our clock is no skew but a mistake.
const FUTURE_MS: i64 = 120_000;

impl Store {
    /// Takes raw samples of a series, in any order, known ones among them.
    pub fn apply(&mut self, id: SeriesId, samples: &[Sample], now: Timestamp) -> Applied {
        let mut applied = Applied::default();
        let Some(Some(series)) = self.series.get(id.0 as usize) else {
            return applied;
        };
        let fresh_ms = self.fresh_ms(series.job);
        let floor = now.millis() - self.retain_ms - fresh_ms;
        let Some(first) = self.merge(id, samples, floor, now, &mut applied) else {
            return applied;
        };
        self.observe_rhythm(id, first);
        self.observe_percent(id, first);
        self.write_instants(id, first, fresh_ms, floor);
        self.write_original(id, first, fresh_ms);
        let capacity = self.ring_capacity(id, fresh_ms);
        let scratch = std::mem::take(&mut self.scratch);
        if let Some(series) = self.series[id.0 as usize].as_mut() {
            series.ring.replace(&scratch, capacity);
            series.written_fresh_ms = fresh_ms;
        }
        self.scratch = scratch;
        applied
    }

    /// Late samples within F find their neighbours in the ring.
    fn ring_capacity(&self, id: SeriesId, fresh_ms: i64) -> usize {
        let scrape_ms = self.series[id.0 as usize]
            .as_ref()
            .map_or(ASSUMED.scrape_ms, |series| {
                self.jobs[usize::from(series.job)].timing.scrape_ms
            });
        let scrapes = (fresh_ms + scrape_ms - 1) / scrape_ms.max(1);
        usize::try_from(scrapes).unwrap_or(0).clamp(1, 126) + 2
    }

    /// Fills `scratch` with the series' kept samples and the new ones, sorted.
    /// Returns the time of the oldest new one.
    fn merge(
        &mut self,
        id: SeriesId,
        samples: &[Sample],
        floor: i64,
        now: Timestamp,
        applied: &mut Applied,
    ) -> Option<Timestamp> {
        let series = self.series[id.0 as usize].as_ref()?;
        let newest_kept = series.ring.newest().map(|sample| sample.at);
        let is_known = |at| newest_kept.is_some_and(|newest| at <= newest) && series.ring.knows(at);
        self.scratch.clear();
        self.scratch.extend(series.ring.iter());
        let mut first: Option<Timestamp> = None;
        for sample in samples {
            if sample.at.millis() <= floor {
                applied.too_old += 1;
            } else if sample.at.millis() > now.millis() + FUTURE_MS {
                applied.future += 1;
            } else if is_known(sample.at)
                || self
                    .scratch
                    .iter()
                    .rev()
                    .take(4)
                    .any(|seen| seen.at == sample.at)
            {
                applied.repeated += 1;
            } else {
                let ratio = self.jobs[usize::from(series.job)].percent_as_ratio;
                match validity::reading(series.unit, sample.value, ratio) {
                    Some(_) => applied.accepted += 1,
                    None => applied.invalid += 1,
                }
                self.scratch.push(*sample);
                first = Some(first.map_or(sample.at, |first| first.min(sample.at)));
            }
        }
        if first.is_some() && !self.scratch.is_sorted_by_key(|sample| sample.at) {
            self.scratch.sort_by_key(|sample| sample.at);
            self.scratch.dedup_by_key(|sample| sample.at);
        }
        first
    }

    /// Hands what the samples show of the job's intervals to its judge.
    /// Framebuffer readings rarely change and would only tell of long ones.
    fn observe_rhythm(&mut self, id: SeriesId, first: Timestamp) {
        if let Some(series) = self.series[id.0 as usize].as_ref()
            && series.unit != Unit::Mebibytes
        {
            let job = &mut self.jobs[usize::from(series.job)];
            job.rhythm.observe(&self.scratch, first);
        }
    }

    /// Judges whether the job's percent fields are ratios; a changed verdict
    /// rescales what was already written.
    fn observe_percent(&mut self, id: SeriesId, first: Timestamp) {
        let Some(series) = self.series[id.0 as usize].as_ref() else {
            return;
        };
        if series.unit != Unit::Percent || self.percent_as_ratio.is_some() {
            return;
        }
        let job_id = series.job;
        let job = &mut self.jobs[usize::from(job_id)];
        for sample in self
            .scratch
            .iter()
            .rev()
            .take_while(|sample| sample.at >= first)
        {
            job.evidence.observe(sample.value);
        }
        let verdict = job.evidence.is_ratio();
        if verdict == job.percent_as_ratio {
            return;
        }
        job.percent_as_ratio = verdict;
        let factor = if verdict { 100.0 } else { 0.01 };
        for signal in [SignalId::MEM_COPY_UTIL, SignalId::GPU_UTIL] {
            let fed = |series: &&Series| series.job == job_id && series.signal == signal;
            let rows: HashSet<RowId> = self
                .series
                .iter()
                .flatten()
                .filter(fed)
                .map(|series| series.row)
                .collect();
            if let Some(columns) = self.signals.get_mut(signal.index()) {
                columns.scale(factor, |row| rows.contains(&row));
            }
        }
    }

    /// Writes the readings of all instants that the samples from `first` on
    /// can touch.
    fn write_instants(&mut self, id: SeriesId, first: Timestamp, fresh_ms: i64, floor: i64) {
        let Some(series) = self.series[id.0 as usize].as_ref() else {
            return;
        };
        let Some(last) = self.scratch.last() else {
            return;
        };
        let step = self.step_ms;
        let from = first.millis().max(floor);
        let start = from.div_euclid(step) + i64::from(from.rem_euclid(step) != 0);
        let end = (last.at.millis() + fresh_ms - 1).div_euclid(step);
        let (row, signal) = (series.row, series.signal);
        let ratio = self.jobs[usize::from(series.job)].percent_as_ratio;
        let alone = series.alone;
        let mut upto = self.scratch.len();
        for index in (start..=end).rev() {
            let instant = Timestamp::from_millis(index * step);
            while upto > 0 && self.scratch[upto - 1].at > instant {
                upto -= 1;
            }
            let own = self.scratch[..upto].last().and_then(|sample| {
                let fresh = sample.at.millis() > instant.millis() - fresh_ms;
                let value = validity::reading(series.unit, sample.value, ratio)?;
                fresh.then_some(Reading {
                    value,
                    at: sample.at,
                })
            });
            let reading = if alone {
                own
            } else {
                self.best_of_row(id, row, signal, index, own)
            };
            let rows = self.rows.len();
            if let Some(columns) = self.signals.get_mut(signal.index()) {
                columns.set(row, index, step, reading, rows);
            }
        }
    }

    /// The reading that counts for a row fed by several series: the one it has
    /// (unless that was this series' own, now overtaken), this series' and what
    /// its siblings still remember.
    fn best_of_row(
        &self,
        id: SeriesId,
        row_id: RowId,
        signal: SignalId,
        index: i64,
        own: Option<Reading>,
    ) -> Option<Reading> {
        let step = self.step_ms;
        let instant = Timestamp::from_millis(index * step);
        let mut best = own;
        let mut consider = |reading: Option<Reading>| {
            best = match (best, reading) {
                (Some(best), Some(reading)) => Some(best.better(reading)),
                (best, reading) => best.or(reading),
            };
        };
        let written = self
            .signals
            .get(signal.index())
            .and_then(|columns| columns.get(row_id, index, step));
        // Our own older reading must not outlive an invalid newer sample.
        let overtaken = own.is_none() && written.is_some_and(|written| self.wrote(id, written));
        if !overtaken {
            consider(written);
        }
        if let Some(row) = &self.rows[row_id.0 as usize] {
            for other in row.series.iter().filter(|other| **other != id) {
                let Some(series) = &self.series[other.0 as usize] else {
                    continue;
                };
                if series.signal != signal {
                    continue;
                }
                let job = &self.jobs[usize::from(series.job)];
                let sample = series.ring.reading(instant, self.fresh_ms(series.job));
                consider(sample.and_then(|sample| {
                    let value = validity::reading(series.unit, sample.value, job.percent_as_ratio)?;
                    Some(Reading {
                        value,
                        at: sample.at,
                    })
                }));
            }
        }
        best
    }

    /// Whether a reading is one of the series whose samples are at hand. A
    /// sibling's of the same time and value is found in the sibling's ring.
    fn wrote(&self, id: SeriesId, written: Reading) -> bool {
        let Some(series) = self.series[id.0 as usize].as_ref() else {
            return false;
        };
        let ratio = self.jobs[usize::from(series.job)].percent_as_ratio;
        self.scratch.iter().any(|sample| {
            sample.at == written.at
                && validity::reading(series.unit, sample.value, ratio) == Some(written.value)
        })
    }

    /// Keeps the original exporter's number in step. It is kept in the unit of
    /// the series: whether that is percent may turn out later.
    fn write_original(&mut self, id: SeriesId, first: Timestamp, fresh_ms: i64) {
        let Some(series) = self.series[id.0 as usize].as_ref() else {
            return;
        };
        let Some(last) = self.scratch.last() else {
            return;
        };
        if series.signal != SignalId::MEM_COPY_UTIL {
            return;
        }
        let job = &mut self.jobs[usize::from(series.job)];
        let lasting_ms = job.timing.lasting_ms(fresh_ms, ORIGINAL_STEP_MS);
        let limit = if job.percent_as_ratio { 1.0 } else { 100.0 };
        let step = ORIGINAL_STEP_MS;
        let start = (first.millis() - 1).div_euclid(step) + 1;
        let end = (last.at.millis() + fresh_ms - 1).div_euclid(step);
        let valid = |sample: Option<Sample>| {
            let sample = sample?;
            let value = validity::reading(series.unit, sample.value, false)?;
            Some(Contribution {
                value: value.min(limit),
                at: sample.at,
                fresh_until: Timestamp::from_millis(sample.at.millis() + lasting_ms),
            })
        };
        for index in start..=end {
            let instant = Timestamp::from_millis(index * step);
            let written = series.written_fresh_ms;
            let before = valid(series.ring.reading(instant, written));
            let reading = ring::reading(self.scratch.iter().rev(), instant, fresh_ms);
            let after = valid(reading);
            job.original.exchange(index, before, after);
        }
    }
}
