//! The store's work between samples: measuring, removing, views for a snapshot.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use super::super::batch::PrometheusId;
use super::super::frame::{Frame, SampleTimes};
use super::super::grid::{Columns, Reading, RowId};
use super::super::series::SeriesInfo;
use super::super::signal::SignalId;
use super::super::targets::{TargetId, Targets};
use super::super::validity;
use super::{DeviceRow, NO_SAMPLE, Series, SeriesId, Store};
use apimachinery::time::Timestamp;

/// Samples of one scrape have one time. Devices under one name whose samples are further
/// apart than this, in milliseconds, have several exporters.
const ONE_SCRAPE_MS: i64 = 1_000;

/// At most one in this many series of a target may be older than the others.
const SOME: u32 = 10;

/// The series of a target in a round. An exporter omits a series now and then, and a poll
/// may return several of its scrapes, so a few differing series prove nothing.
#[derive(Clone, Copy, Debug)]
struct RoundSamples {
    /// The newest sample.
    last: Timestamp,
    /// Series whose newest sample is of the same scrape as the newest of all.
    same: u32,
    /// Series whose newest sample is older.
    older: u32,
    /// Series with a sample again, after a round in which only others had one.
    returned: u32,
}

impl RoundSamples {
    const NONE: Self = Self {
        last: Timestamp::MIN,
        same: 0,
        older: 0,
        returned: 0,
    };

    fn add(&mut self, at: Timestamp) {
        if at.millis() > self.last.millis().saturating_add(ONE_SCRAPE_MS) {
            self.older += std::mem::take(&mut self.same);
        }
        self.last = self.last.max(at);
        match self.last.millis() - at.millis() > ONE_SCRAPE_MS {
            true => self.older += 1,
            false => self.same += 1,
        }
    }

    /// Whether the series are of several scrapes in one round, or of a scrape after a
    /// round without them; `before` is the newest sample of that round.
    fn differ(&self, before: Option<Timestamp>) -> bool {
        let all = self.same + self.older;
        let is_later =
            before.is_some_and(|before| self.last.millis() - before.millis() > ONE_SCRAPE_MS);
        self.older * SOME > all || (is_later && self.returned * 2 > all)
    }
}

impl Store {
    /// Whether the device and owner of a series recently had a sample of `signal`.
    pub(crate) fn reports(&self, info: &SeriesInfo, signal: SignalId) -> bool {
        let siblings = self.siblings(info).iter();
        let mut siblings = siblings.filter_map(|id| self.series.get(id.0 as usize)?.as_ref());
        siblings.any(|series| series.signal == signal && series.newest.at >= self.recent)
    }

    /// The number of heard whole GPUs that are not reported with a signal.
    pub(crate) fn lacking(&self, signal: SignalId) -> usize {
        let with = self.series.iter().flatten();
        let with = with.filter(|it| it.signal == signal && it.newest.at >= self.recent);
        let with: HashSet<RowId> = with.map(|series| series.row).collect();
        let whole = self.rows().filter(|(_, row)| !row.device.is_mig());
        whole
            .filter(|(id, _)| self.newest(*id) >= self.recent && !with.contains(id))
            .count()
    }

    /// The series of the same device and owner.
    pub(crate) fn siblings(&self, info: &SeriesInfo) -> &[SeriesId] {
        let row = self.row_of(&info.device, info.owner.as_ref());
        let row = row.and_then(|id| self.rows.get(id.0 as usize)?.as_ref());
        row.map_or(&[], |row| &row.series)
    }

    /// Whether a series of the signal is kept.
    pub(crate) fn has_signal(&self, signal: SignalId) -> bool {
        self.series_of
            .get(signal.index())
            .is_some_and(|count| *count > 0)
    }

    /// How many series are known.
    #[must_use]
    pub fn series_len(&self) -> usize {
        self.series.len() - self.free_series.len()
    }

    /// The rows in use.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (RowId, &Arc<DeviceRow>)> {
        (0..)
            .map(RowId)
            .zip(&self.rows)
            .filter_map(|(id, row)| Some((id, row.as_ref()?)))
    }

    /// The time of a row's newest sample.
    pub(crate) fn newest(&self, row: RowId) -> Timestamp {
        self.heard
            .get(row.0 as usize)
            .map_or(Timestamp::MIN, |heard| heard.newest)
    }

    /// Changes whenever a row is added, removed or changes its labels.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// How far back samples are kept, milliseconds: the longest window of the source with
    /// the largest L, and the look-back of its first instant.
    fn retain_ms(&self) -> i64 {
        let look_back_ms = self.targets.longest_fresh_ms() + self.settings.step_ms;
        self.settings.window_ms + look_back_ms + self.targets.longest_lag_ms()
    }

    /// Removes samples that no window can use any more. Call before a batch is applied.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.oldest = Timestamp::from_millis(now.millis() - self.retain_ms());
        let heard_ms = self.targets.longest_fresh_ms() + self.targets.longest_lag_ms();
        self.recent = Timestamp::from_millis(now.millis() - heard_ms);
        let index = self.oldest.millis().div_euclid(self.settings.step_ms);
        for columns in &mut self.signals {
            columns.retain_from(index, self.settings.step_ms);
        }
    }

    /// Measures the round of queries to a Prometheus that ended at `now`.
    pub(crate) fn end_round(&mut self, of: PrometheusId, now: Timestamp) {
        self.divide_targets(of, now);
        self.targets.advance(of, now);
        self.forget_frozen();
    }

    /// Makes each device a target of its own if one name stands for several exporters.
    fn divide_targets(&mut self, of: PrometheusId, now: Timestamp) {
        // By series, not by row: a row has the times of all targets that feed it.
        let mut new_samples: BTreeMap<TargetId, RoundSamples> = BTreeMap::new();
        for series in self.series.iter_mut().flatten() {
            let (target, at) = (series.target, series.newest.at);
            if series.unit.hardly_changes() || !self.targets.is_new_sample(of, target, at) {
                continue;
            }
            let round = self.targets.round(target);
            let new_samples = new_samples.entry(target).or_insert(RoundSamples::NONE);
            new_samples.add(at);
            new_samples.returned += u32::from(series.round > 0 && series.round < round);
            series.round = round + 1;
        }
        for (target, new_samples) in new_samples {
            let before = self.targets.end_scrape(target);
            if self.targets.differ(target, new_samples.differ(before)) {
                self.divide(target, now);
            }
        }
    }

    fn divide(&mut self, target: TargetId, now: Timestamp) {
        let mut rows = BTreeSet::new();
        for series in self.series.iter_mut().flatten() {
            if series.target == target
                && let Some(Some(row)) = self.rows.get(series.row.0 as usize)
                && let Some(heard) = self.heard.get(series.row.0 as usize)
            {
                let of_device = (&row.device, heard.newest);
                series.target = self.targets.divide(target, of_device, now);
                rows.insert(series.row);
            }
        }
        for row in rows {
            if let Some(Some(row)) = self.rows.get_mut(row.0 as usize) {
                Arc::make_mut(row).combine_labels(&self.series, &self.targets);
            }
        }
        self.generation += 1;
    }

    /// Removes the unchanging readings of newly frozen targets: another exporter of the
    /// same device may send readings that change. The first of them stays as the last
    /// reading of its row, because the columns do not reach back to it.
    fn forget_frozen(&mut self) {
        let frozen: BTreeMap<TargetId, Timestamp> = self.targets.newly_frozen().collect();
        if frozen.is_empty() {
            return;
        }
        let step_ms = self.settings.step_ms;
        for series in self.series.iter().flatten() {
            let scale = self.scale(series.target, series.signal);
            if let (Some(since), Some(columns)) = (
                frozen.get(&series.target),
                self.signals.get_mut(series.signal.index()),
            ) {
                let still = validity::reading(series.unit, series.newest.value, scale);
                columns.forget(series.row, step_ms, |reading| {
                    reading.at > *since && Some(reading.value) == still
                });
                if let Some(value) = still {
                    let last = Reading { value, at: *since };
                    columns.keep_last(series.row, last, step_ms);
                }
            }
        }
    }

    /// Removes series whose newest sample is older than anything kept, and rows without
    /// series. A row that a live pod holds keeps the newest series of each signal. Returns
    /// the removed series.
    pub(crate) fn sweep(
        &mut self,
        now: Timestamp,
        is_held: impl Fn(RowId) -> bool,
    ) -> HashSet<SeriesId> {
        let mut gone = HashSet::new();
        let limit = now.millis() - self.retain_ms() - self.settings.step_ms;
        let has_newer = |of: &Series| {
            let row = self.rows[of.row.0 as usize].as_ref();
            let siblings = row.into_iter().flat_map(|row| &row.series);
            let mut siblings = siblings.filter_map(|id| self.series[id.0 as usize].as_ref());
            siblings.any(|it| it.signal == of.signal && it.newest.at > of.newest.at)
        };
        let ended = |series: &Series| {
            series.newest.at.millis() < limit && (!is_held(series.row) || has_newer(series))
        };
        let all = (0_u32..).zip(&self.series);
        let ended = all.filter(|(_, slot)| slot.as_ref().is_some_and(ended));
        let ended: Vec<u32> = ended.map(|(index, _)| index).collect();
        for index in ended {
            if let Some(series) = self.series[index as usize].take() {
                if let Some(count) = self.series_of.get_mut(series.signal.index()) {
                    *count -= 1;
                }
                self.targets.release(series.target);
                gone.insert(SeriesId(index));
                self.free_series.push(SeriesId(index));
            }
        }
        for (index, slot) in (0_u32..).zip(&mut self.rows) {
            let Some(row) = slot else { continue };
            let ends = row.series.iter().any(|series| gone.contains(series));
            if !ends && !row.is_divided {
                continue;
            }
            let row = Arc::make_mut(row);
            row.series.retain(|series| !gone.contains(series));
            if row.series.is_empty() {
                let hash = self.hasher.hash_one((&row.device, row.owner.as_ref()));
                if let Ok(known) = self.row_ids.find_entry(hash, |id| id.0 == index) {
                    known.remove();
                }
                self.free_rows.push(RowId(index));
                *slot = None;
                self.generation += 1;
            } else if row.combine_labels(&self.series, &self.targets) {
                self.generation += 1;
            }
        }
        gone
    }

    /// Removes all samples, because the clock went back. Series and units stay known.
    pub(crate) fn clear(&mut self) {
        self.signals.fill(Columns::default());
        for series in self.series.iter_mut().flatten() {
            series.newest = NO_SAMPLE;
        }
        self.heard.fill(SampleTimes::NEVER);
        self.targets.clear();
        self.generation += 1;
    }

    /// Sources and targets.
    #[must_use]
    pub const fn targets(&self) -> &Targets {
        &self.targets
    }

    /// An immutable view of all readings. `answered`: whether each signal was ever
    /// answered.
    pub(crate) fn frame(&self, now: Timestamp, answered: Vec<bool>) -> Frame {
        Frame {
            now,
            step_ms: self.settings.step_ms,
            signals: self.signals.clone(),
            answered,
            view: self.targets.view(now).into(),
            heard: self.heard.as_slice().into(),
        }
    }
}
