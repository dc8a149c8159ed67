//! The unit of utilisation, as the scrapes of a batch show it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::batch::Sample;
use super::super::grid::{Reading, RowId};
use super::super::signal::{SignalId, Unit};
use super::super::targets::TargetId;
use super::super::unit::{RATIO_MAX, Scale, UnitEvidence};
use super::{SeriesId, Store};
use apimachinery::time::Timestamp;

impl Store {
    /// The unit of a target's signal: configured, detected, or that of its source or
    /// job; percent by default.
    pub(super) fn scale(&self, target: TargetId, signal: SignalId) -> Scale {
        let set = self.settings.scale;
        let shown = set.or_else(|| self.targets.scale(target, signal));
        shown.unwrap_or(Scale::Percent)
    }

    /// Detects the units of a signal from the new samples of a batch, before they are
    /// applied. Samples written in another unit are removed.
    pub(crate) fn judge_units<'b, I: Iterator<Item = (SeriesId, &'b [Sample])>>(
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
        let mut scrapes: BTreeMap<(TargetId, Timestamp), UnitEvidence> = BTreeMap::new();
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

    /// The targets with a new sample that shows another unit than the one in force, or
    /// that have shown one before.
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

    /// The unit in force of each target.
    fn scales_of(&self, signal: SignalId) -> Vec<(TargetId, Scale)> {
        let targets = self.targets.iter();
        targets
            .map(|(id, ..)| (id, self.scale(id, signal)))
            .collect()
    }

    /// Removes the samples of targets whose unit changed: an unknown value is better than
    /// one a hundred times too small. Zeros stay, which are the same in both units. If the
    /// unit was percent, only values that a ratio can have are removed: other targets may
    /// report the same device.
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
