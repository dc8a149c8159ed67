//! In which unit utilisation arrives, as the scrapes of a batch show it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::batch::Sample;
use super::super::grid::{Reading, RowId};
use super::super::signal::{SignalId, Unit};
use super::super::targets::TargetId;
use super::super::unit::{RATIO_MAX, Scale, Shown};
use super::{SeriesId, Store};
use apimachinery::time::Timestamp;

impl Store {
    /// The unit in which a target sends a signal: as set, as it shows, as its job
    /// shows; percent before anything is shown.
    pub(super) fn scale(&self, target: TargetId, signal: SignalId) -> Scale {
        let set = self.settings.scale;
        let shown = set.or_else(|| self.targets.scale(target, signal));
        shown.unwrap_or(Scale::Percent)
    }

    /// Judges the units of a signal by the samples of a batch that are new,
    /// before they are applied. What was written in another unit is forgotten.
    pub fn judge_units<'b, I: Iterator<Item = (SeriesId, &'b [Sample])>>(
        &mut self,
        signal: SignalId,
        batch: impl Fn() -> I,
    ) {
        if self.settings.scale.is_some() {
            return;
        }
        let in_question = self.in_question(signal, batch());
        if in_question.is_empty() {
            return;
        }
        let mut scrapes: BTreeMap<(TargetId, Timestamp), Shown> = BTreeMap::new();
        for (id, samples) in batch() {
            let Some(Some(series)) = self.series.get(id.0 as usize) else {
                continue;
            };
            if in_question.contains(&series.target) {
                for sample in samples.iter().filter(|it| it.at > series.newest.at) {
                    let scrape = scrapes.entry((series.target, sample.at)).or_default();
                    scrape.add(sample.value);
                }
            }
        }
        let before = self.scales_of(signal);
        let mut changed = false;
        for ((target, at), shown) in scrapes {
            if let Some(scale) = shown.scale() {
                let told = (scale, at);
                let throughout_ms = self.settings.window_ms;
                changed |= self.targets.take_scale(target, signal, told, throughout_ms);
            }
        }
        if changed {
            self.targets.count_scales(signal);
            self.forget_other_units(signal, &before);
        }
    }

    /// The targets of which a new sample shows another unit than the one in
    /// force, or that have shown one before.
    fn in_question<'b>(
        &self,
        signal: SignalId,
        batch: impl Iterator<Item = (SeriesId, &'b [Sample])>,
    ) -> HashSet<TargetId> {
        let mut found = HashSet::new();
        for (id, samples) in batch {
            let Some(Some(series)) = self.series.get(id.0 as usize) else {
                continue;
            };
            if series.unit != Unit::Percent {
                return found;
            }
            let known = self.targets.scale(series.target, signal);
            let new = samples.iter().filter(|it| it.at > series.newest.at);
            let mut shown = new.filter_map(|sample| Scale::of(sample.value));
            let doubted = self.targets.is_doubted(series.target, signal);
            if doubted || shown.any(|scale| Some(scale) != known) {
                found.insert(series.target);
            }
        }
        found
    }

    /// The unit in force of each target that has one.
    fn scales_of(&self, signal: SignalId) -> Vec<(TargetId, Scale)> {
        let targets = self.targets.iter();
        targets
            .map(|(id, ..)| (id, self.scale(id, signal)))
            .collect()
    }

    /// Forgets what was written of targets whose unit became another: a value is
    /// unknown rather than a hundred times too small. 0 is 0 in both, and a ratio
    /// that was taken for a percent is small: others may report the same device.
    fn forget_other_units(&mut self, signal: SignalId, before: &[(TargetId, Scale)]) {
        let changed = before
            .iter()
            .filter(|(id, scale)| self.scale(*id, signal) != *scale);
        let changed: BTreeSet<TargetId> = changed.map(|(id, _)| *id).collect();
        let series = self.series.iter().flatten();
        let fed = series.filter(|it| it.signal == signal && changed.contains(&it.target));
        let rows: BTreeSet<RowId> = fed.map(|series| series.row).collect();
        let step_ms = self.settings.step_ms;
        let were_percents = before
            .iter()
            .any(|(id, scale)| changed.contains(id) && *scale == Scale::Percent);
        let most = if were_percents { RATIO_MAX } else { f64::MAX };
        let is_other = |reading: Reading| reading.value != 0.0 && reading.value <= most;
        if let Some(columns) = self.signals.get_mut(signal.index()) {
            for row in rows {
                columns.forget(row, step_ms, is_other);
            }
        }
    }
}
