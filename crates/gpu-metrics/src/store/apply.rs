//! Writes samples into cells.

use std::borrow::Cow;

use super::super::batch::Sample;
use super::super::grid::Reading;
use super::super::signal::Unit;
use super::super::unit::Scale;
use super::super::validity;
use super::{Applied, SeriesId, Store};
use apimachinery::time::Timestamp;

/// A sample this far in the future is an error, not clock skew.
const FUTURE_MS: i64 = 120_000;

/// How samples of a series are read.
#[derive(Clone, Copy, Debug)]
struct How {
    unit: Unit,
    scale: Scale,
    /// When the target was frozen: samples between these times do not count.
    frozen_period: (Timestamp, Timestamp),
}

impl Store {
    /// Takes raw samples of a series in any order, including known ones.
    pub(crate) fn apply(&mut self, id: SeriesId, samples: &[Sample], now: Timestamp) -> Applied {
        let mut applied = Applied::default();
        let Some(Some(series)) = self.series.get(id.0 as usize) else {
            return applied;
        };
        let mut samples = Cow::Borrowed(samples);
        if !samples.is_sorted_by_key(|sample| sample.at) {
            samples.to_mut().sort_by_key(|sample| sample.at);
        }
        // Some stores and proxies return more than the requested range.
        let from = now.millis() - self.settings.back_ms;
        let until = now.millis() + FUTURE_MS;
        let start = samples.partition_point(|sample| sample.at.millis() <= from);
        let end = samples.partition_point(|sample| sample.at.millis() <= until);
        applied.too_old += start as u64;
        applied.future += (samples.len() - end) as u64;
        let samples = &samples[start..end];
        let (target, row) = (series.target, series.row);
        let is_new = series.newest.at == Timestamp::MIN;
        let mut how = How {
            unit: series.unit,
            scale: self.scale(target, series.signal),
            frozen_period: self.targets.frozen_range(target),
        };
        self.targets.take(target, samples);
        if let (Some(heard), Some(first), Some(last)) = (
            self.heard.get_mut(row.0 as usize),
            samples.first(),
            samples.last(),
        ) {
            heard.first = heard.first.min(first.at);
            heard.newest = heard.newest.max(last.at);
        }
        for sample in samples {
            self.take_one(id, *sample, &mut how, &mut applied);
        }
        if is_new {
            self.began(id);
        }
        applied
    }

    fn take_one(&mut self, id: SeriesId, sample: Sample, how: &mut How, applied: &mut Applied) {
        let value = validity::reading(how.unit, sample.value, how.scale);
        let Some(series) = self.series[id.0 as usize].as_mut() else {
            return;
        };
        let (row, signal) = (series.row, series.signal);
        let is_new = sample.at > series.newest.at;
        if is_new {
            let before = std::mem::replace(&mut series.newest, sample);
            let moved =
                before.at > Timestamp::MIN && before.value.to_bits() != sample.value.to_bits();
            let busy = value.is_some_and(|value| is_busy(how.unit, value));
            if let Some(movement) = self.targets.movement(series.target) {
                movement.take(signal, sample.at, (moved, busy));
                let (since, until) = &mut how.frozen_period;
                if moved && *until == Timestamp::MAX && sample.at > *since {
                    *until = sample.at;
                    movement.frozen_period = how.frozen_period;
                }
            }
        }
        let reading = Reading {
            value: value.unwrap_or(f64::NAN),
            at: sample.at,
        };
        let (since, until) = how.frozen_period;
        let is_still = since < sample.at && sample.at < until;
        let is_kept = sample.at > self.oldest && !is_still;
        let columns = self.signals.get_mut(signal.index()).filter(|_| is_kept);
        let step_ms = self.settings.step_ms;
        let wrote = columns.is_some_and(|columns| columns.put(row, reading, step_ms));
        applied.count(is_new || wrote, value.is_some());
    }
}

/// Whether a reading shows that the GPU is busy, at the resolution of a percent.
fn is_busy(unit: Unit, value: f64) -> bool {
    match unit {
        Unit::Percent => value > 0.0,
        Unit::Ratio => value >= 1.0,
        Unit::Mebibytes | Unit::Watts | Unit::Plain => false,
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
