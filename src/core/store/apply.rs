//! Samples into cells.

use std::collections::HashSet;

use super::super::batch::Sample;
use super::super::grid::{Reading, RowId};
use super::super::original::{Contribution, STEP_MS as ORIGINAL_STEP_MS};
use super::super::renewal::is_change;
use super::super::series::SeriesInfo;
use super::super::signal::{SignalId, Unit};
use super::super::targets::TargetId;
use super::super::time::Timestamp;
use super::super::validity;
use super::{Applied, SeriesId, Store};

/// A sample this far ahead of our clock is no skew but a mistake.
const FUTURE_MS: i64 = 120_000;

impl Store {
    /// Takes raw samples of a series, in any order, known ones among them.
    pub fn apply(&mut self, id: SeriesId, samples: &[Sample], now: Timestamp) -> Applied {
        let mut applied = Applied::default();
        let Some(Some(series)) = self.series.get(id.0 as usize) else {
            return applied;
        };
        let target = series.target;
        if samples.is_sorted_by_key(|sample| sample.at) {
            self.take_all(id, samples, now, &mut applied);
        } else {
            let mut sorted = samples.to_vec();
            sorted.sort_by_key(|sample| sample.at);
            self.take_all(id, &sorted, now, &mut applied);
        }
        let bounds = (now.millis() - self.retain_ms, now.millis() + FUTURE_MS);
        let usable = |sample: &Sample| (bounds.0..=bounds.1).contains(&sample.at.millis());
        if samples.iter().all(usable) {
            self.targets.take(target, samples);
        } else {
            // Some stores and proxies give more than they are asked for.
            let usable: Vec<Sample> = samples.iter().copied().filter(usable).collect();
            self.targets.take(target, &usable);
        }
        self.hear(id, samples.iter().copied().filter(usable));
        applied
    }

    /// Takes only the times of a series' samples, oldest first: they show how
    /// often its target is scraped, and when its readings moved.
    pub fn learn_times(&mut self, id: SeriesId, samples: &[Sample], now: Timestamp) {
        if let Some(Some(series)) = self.series.get(id.0 as usize) {
            let (target, signal, unit) = (series.target, series.signal, series.unit);
            self.learn_times_of_target(target, (signal, unit), samples, now);
        }
    }

    /// The same of a series that is not kept, if its target is known.
    pub fn learn_times_of(&mut self, info: &SeriesInfo, samples: &[Sample], now: Timestamp) {
        if let Some(target) = self.target_of(info) {
            self.learn_times_of_target(target, (info.signal, info.unit), samples, now);
        }
    }

    fn learn_times_of_target(
        &mut self,
        target: TargetId,
        (signal, unit): (SignalId, Unit),
        samples: &[Sample],
        now: Timestamp,
    ) {
        if !samples.is_sorted_by_key(|sample| sample.at) {
            return;
        }
        let until = now.millis().saturating_add(FUTURE_MS);
        let samples = &samples[..samples.partition_point(|sample| sample.at.millis() <= until)];
        self.targets.take(target, samples);
        if unit != Unit::Mebibytes
            && let Some(renewals) = self.targets.renewals(target)
        {
            renewals.take(samples);
        }
        if let Some(movement) = self.targets.movement(target) {
            if let Some(last) = samples.last() {
                movement.read(signal, last.at);
            }
            for pair in samples.windows(2) {
                if pair[0].value.to_bits() != pair[1].value.to_bits() {
                    movement.moved(signal, pair[1].at);
                }
            }
        }
    }

    /// Samples in the order of time.
    fn take_all(
        &mut self,
        id: SeriesId,
        samples: &[Sample],
        now: Timestamp,
        applied: &mut Applied,
    ) {
        let floor = now.millis() - self.retain_ms;
        for sample in samples {
            let Some(series) = self.series[id.0 as usize].as_ref() else {
                return;
            };
            if sample.at.millis() <= floor {
                applied.too_old += 1;
            } else if sample.at.millis() > now.millis() + FUTURE_MS {
                applied.future += 1;
            } else if sample.at <= series.newest.at {
                let late = self.write(id, *sample);
                applied.count(late, self.value(id, *sample).is_some());
            } else {
                self.observe_percent(id, *sample);
                self.write(id, *sample);
                let is_reading = self.value(id, *sample).is_some();
                applied.count(true, is_reading);
                self.succeed(id, *sample, is_reading);
            }
        }
    }

    /// The reading that a sample of a series stands for.
    fn value(&self, id: SeriesId, sample: Sample) -> Option<f64> {
        let series = self.series[id.0 as usize].as_ref()?;
        let ratio = self.jobs[usize::from(series.job)].percent_as_ratio;
        validity::reading(series.unit, sample.value, ratio)
    }

    /// Puts a sample into its cell; whether that changed anything.
    fn write(&mut self, id: SeriesId, sample: Sample) -> bool {
        let value = self.value(id, sample).unwrap_or(f64::NAN);
        let Some(series) = self.series[id.0 as usize].as_ref() else {
            return false;
        };
        let reading = Reading {
            value,
            at: sample.at,
        };
        let (step_ms, rows) = (self.step_ms, self.rows.len());
        self.signals
            .get_mut(series.signal.index())
            .is_some_and(|columns| columns.put(series.row, reading, step_ms, rows, series.feed))
    }

    /// A sample follows the newest of its series.
    fn succeed(&mut self, id: SeriesId, sample: Sample, is_reading: bool) {
        self.write_original(id, sample);
        let Some(series) = self.series[id.0 as usize].as_mut() else {
            return;
        };
        if is_reading && series.unit == Unit::Percent {
            self.targets.report(series.target, series.signal, sample.at);
        }
        let is_busy = match series.unit {
            Unit::Percent => sample.value > 0.0,
            // As much as shows in a percent.
            Unit::Ratio => sample.value >= 0.01,
            Unit::Mebibytes | Unit::Watts | Unit::Plain => false,
        };
        if is_reading && is_busy {
            self.targets.busy(series.target, sample.at);
        }
        if series.signal == SignalId::POWER_USAGE
            && let Some(movement) = self.targets.movement(series.target)
        {
            movement.read(series.signal, sample.at);
        }
        let first = series.newest.at == Timestamp::MIN;
        let before = std::mem::replace(&mut series.newest, sample).value;
        if first || before.to_bits() == sample.value.to_bits() {
            return;
        }
        if let Some(movement) = self.targets.movement(series.target) {
            movement.moved(series.signal, sample.at);
        }
        // Framebuffer readings rarely change and would only tell of long ones.
        if series.unit != Unit::Mebibytes
            && is_change(before, sample.value)
            && let Some(renewals) = self.targets.renewals(series.target)
        {
            renewals.observe(sample.at);
        }
    }

    /// Keeps when the row was heard.
    fn hear(&mut self, id: SeriesId, samples: impl Iterator<Item = Sample>) {
        let row = self.series[id.0 as usize].as_ref().map(|series| series.row);
        let Some(heard) = row.and_then(|row| self.heard.get_mut(row.0 as usize)) else {
            return;
        };
        for sample in samples {
            heard.first = heard.first.min(sample.at);
            heard.newest = heard.newest.max(sample.at);
        }
    }

    /// Judges whether the job's percent fields are ratios; a changed verdict
    /// rescales what was already written.
    fn observe_percent(&mut self, id: SeriesId, sample: Sample) {
        let Some(series) = self.series[id.0 as usize].as_ref() else {
            return;
        };
        if series.unit != Unit::Percent || self.percent_as_ratio.is_some() {
            return;
        }
        let job_id = series.job;
        let job = &mut self.jobs[usize::from(job_id)];
        job.evidence.observe(sample.value);
        let verdict = job.evidence.is_ratio();
        if verdict == job.percent_as_ratio {
            return;
        }
        job.percent_as_ratio = verdict;
        let factor = if verdict { 100.0 } else { 0.01 };
        for signal in [SignalId::MEM_COPY_UTIL, SignalId::GPU_UTIL] {
            let series = || {
                self.series
                    .iter()
                    .flatten()
                    .filter(|it| it.signal == signal)
            };
            let fed = |by_it: bool| {
                let series = series().filter(move |it| (it.job == job_id) == by_it);
                series.map(|it| it.row).collect::<HashSet<RowId>>()
            };
            let (rows, others) = (fed(true), fed(false));
            if let Some(columns) = self.signals.get_mut(signal.index()) {
                columns.scale(factor, |row| rows.contains(&row) && !others.contains(&row));
                // Nobody knows any more whose reading stands there.
                rows.intersection(&others)
                    .for_each(|row| columns.forget(*row));
            }
        }
    }

    /// Keeps the original exporter's number in step: at its instants the sample
    /// counts from now on, where the one before it counted or none did. It is
    /// kept in the unit of the series: whether that is percent may turn out
    /// later.
    fn write_original(&mut self, id: SeriesId, sample: Sample) {
        let Some(series) = self.series[id.0 as usize].as_mut() else {
            return;
        };
        if series.signal != SignalId::MEM_COPY_UTIL {
            return;
        }
        let fresh_ms = self.targets.fresh_ms(series.target);
        let job = &mut self.jobs[usize::from(series.job)];
        let ratio = job.percent_as_ratio;
        let limit = if ratio { 1.0 } else { 100.0 };
        let unit = series.unit;
        let contribution = |sample: Sample| {
            validity::reading(unit, sample.value, ratio)?;
            Some(Contribution {
                value: sample.value.min(limit),
                at: sample.at,
            })
        };
        let (before, before_fresh_ms) = (series.newest, series.fresh_ms);
        series.fresh_ms = fresh_ms;
        let step = ORIGINAL_STEP_MS;
        let start = (sample.at.millis() - 1).div_euclid(step) + 1;
        let end = (sample.at.millis() + fresh_ms - 1).div_euclid(step);
        let held = |index: i64| before.at.millis() > index * step - before_fresh_ms;
        for index in start..=end {
            let overtaken = held(index).then(|| contribution(before)).flatten();
            job.original
                .exchange(index, overtaken, contribution(sample));
        }
    }
}

impl Applied {
    fn count(&mut self, new: bool, valid: bool) {
        match (new, valid) {
            (false, _) => self.repeated += 1,
            (true, true) => self.accepted += 1,
            (true, false) => self.invalid += 1,
        }
    }
}
