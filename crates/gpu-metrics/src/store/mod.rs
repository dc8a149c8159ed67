//! All samples of the retained past, line by line and instant by instant.

mod frame;
mod lines;
mod upkeep;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use apimachinery::time::{Timestamp, millis};
use indexmap::IndexMap;

use crate::batch::{Batch, BatchSeries, Sample, SeriesKey};
use crate::gaps::Gaps;
use crate::grid::{Columns, Reading, RowId};
use crate::line::Line;
use crate::policy::Policy;
use crate::signal::{SignalId, SignalSpec, Unit};
use crate::source::Sources;
use crate::validity;

pub use self::frame::{Frame, LineTimes};

/// A sample this far in the future is an error, not clock skew.
const FUTURE_MS: i64 = 120_000;

/// How far back a start reads, and how long a line is kept after its last sample.
pub(crate) const START_MS: i64 = 1_200_000;

/// The profiling fields that MIG instances have instead of percents.
pub const PROFILING: [SignalId; 2] = [SignalId::DRAM_ACTIVE, SignalId::GR_ENGINE_ACTIVE];

/// The outcome of a batch's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeReport {
    /// New and valid.
    pub accepted: u64,
    /// New, but no reading: sentinel, not a number, out of range.
    pub invalid: u64,
    pub too_old: u64,
    pub future: u64,
    /// Series whose labels could not be read or name no device.
    pub unidentified: u64,
    /// Series refused because there are too many.
    pub refused: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    line: Arc<Line>,
    times: LineTimes,
    gaps: Gaps,
}

/// All samples. It has one writer; snapshots share its columns.
#[derive(Debug)]
pub struct Store {
    pub(crate) policy: Arc<Policy>,
    specs: Vec<SignalSpec>,
    /// Profiling signals that are kept for whole GPUs too.
    pub(crate) needed_whole: HashSet<SignalId>,
    lines: Vec<Option<Slot>>,
    free: Vec<RowId>,
    ids: HashMap<Arc<Line>, RowId>,
    /// The line of each series, if it is needed and names a device. In the order in which the
    /// series were first seen, which is that of most answers.
    known: IndexMap<[u64; 2], Option<RowId>>,
    next: usize,
    texts: HashSet<Arc<str>>,
    signals: Vec<Columns>,
    pub(crate) sources: Sources,
    /// How far back a start reads, milliseconds.
    pub(crate) back_ms: i64,
    /// The largest F, milliseconds.
    pub(crate) longest_fresh_ms: i64,
    oldest: Timestamp,
    /// Counts changes of the set of lines.
    pub(crate) generation: u64,
}

impl Store {
    pub(crate) fn new(
        policy: Arc<Policy>,
        specs: Vec<SignalSpec>,
        needed_whole: HashSet<SignalId>,
    ) -> Self {
        let longest_fresh_ms = policy.fresh_ms(crate::source::ASSUMED_MS);
        let window_ms = millis(policy.max_window);
        let count = specs.iter().map(|spec| spec.id.index() + 1).max();
        Self {
            policy,
            needed_whole,
            lines: Vec::new(),
            free: Vec::new(),
            ids: HashMap::new(),
            known: IndexMap::new(),
            next: 0,
            texts: HashSet::new(),
            signals: vec![Columns::default(); count.unwrap_or(0)],
            specs,
            sources: Sources::default(),
            back_ms: START_MS.max(window_ms + longest_fresh_ms),
            longest_fresh_ms,
            oldest: Timestamp::MIN,
            generation: 0,
        }
    }

    fn step_ms(&self) -> i64 {
        millis(self.policy.step).max(1)
    }

    /// Takes the samples of a signal's answer.
    pub(crate) fn take(&mut self, batch: &Batch, now: Timestamp) -> IntakeReport {
        let mut report = IntakeReport::default();
        for series in batch.iter() {
            if let Some(row) = self.line_of(&series, batch.signal, &mut report) {
                self.apply(row, batch.signal, series.samples, now, &mut report);
            }
        }
        report
    }

    /// The line of a series; a new one is registered if it is needed.
    fn line_of(
        &mut self,
        series: &BatchSeries<'_>,
        signal: SignalId,
        report: &mut IntakeReport,
    ) -> Option<RowId> {
        let key = of_signal(series.key, signal);
        let next = self.known.get_index(self.next);
        let place = match next.is_some_and(|(next, _)| *next == key) {
            true => Some(self.next),
            false => self.known.get_index_of(&key),
        };
        let Some(place) = place else {
            return self.learn(key, series.labels, signal, report);
        };
        self.next = place + 1;
        *self.known.get_index(place)?.1
    }

    /// Takes raw samples of a field in any order, including known ones.
    fn apply(
        &mut self,
        row: RowId,
        signal: SignalId,
        samples: &[Sample],
        now: Timestamp,
        report: &mut IntakeReport,
    ) {
        let mut sorted = std::borrow::Cow::Borrowed(samples);
        if !sorted.is_sorted_by_key(|sample| sample.at) {
            sorted.to_mut().sort_by_key(|sample| sample.at);
        }
        // Some stores and proxies return more than the requested range.
        let from = now.millis() - self.back_ms;
        let until = now.millis() + FUTURE_MS;
        let start = sorted.partition_point(|sample| sample.at.millis() <= from);
        let end = sorted.partition_point(|sample| sample.at.millis() <= until);
        report.too_old += start as u64;
        report.future += (sorted.len() - end) as u64;
        let (samples, step_ms) = (&sorted[start..end], self.step_ms());
        let spec = self.specs.iter().find(|spec| spec.id == signal);
        let (Some(Some(slot)), Some(unit), Some(columns)) = (
            self.lines.get_mut(row.0 as usize),
            spec.map(|spec| spec.unit),
            self.signals.get_mut(signal.index()),
        ) else {
            return;
        };
        slot.gaps.take(samples);
        // A staleness marker, which some stores return as NaN, ends a line.
        let mut named = samples.iter().filter(|sample| !sample.value.is_nan());
        if let Some(first) = named.next() {
            let last = named.next_back().unwrap_or(first);
            slot.times.first = slot.times.first.min(first.at);
            slot.times.newest = slot.times.newest.max(last.at);
        }
        // The last reading of a device that has been silent for long decides about means.
        let value = |sample: &Sample| validity::reading(unit, sample.value);
        let last = samples.iter().rfind(|sample| value(sample).is_some());
        let last = last.map(|sample| sample.at).filter(|last| {
            let index = crate::grid::instant_from(now, step_ms) + FUTURE_MS / step_ms;
            let known = || columns.last_reading(row, index, step_ms);
            *last <= self.oldest && known().is_none_or(|known| *last > known.at)
        });
        for sample in samples {
            let value = value(sample);
            let reading = Reading {
                value: value.unwrap_or(f64::NAN),
                at: sample.at,
            };
            let is_kept = sample.at > self.oldest || Some(sample.at) == last;
            let is_new = is_kept && columns.put(row, reading, step_ms);
            match (is_new, value) {
                (false, _) => {}
                (true, None) => report.invalid += 1,
                (true, Some(value)) => {
                    report.accepted += 1;
                    if unit == Unit::Percent {
                        let of = (slot.times.source, signal, slot.times.rank);
                        self.sources.show_unit(of, value);
                    }
                }
            }
        }
    }

    /// Whether a series of the signal is kept.
    pub(crate) fn has_signal(&self, signal: SignalId) -> bool {
        let columns = self.signals.get(signal.index());
        columns.is_some_and(|columns| !columns.is_empty())
    }

    /// How many series are known.
    #[must_use]
    pub fn series_len(&self) -> usize {
        self.known.values().flatten().count()
    }

    /// The lines in use.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (RowId, &Arc<Line>)> {
        let all = (0..).map(RowId).zip(&self.lines);
        all.filter_map(|(id, slot)| Some((id, &slot.as_ref()?.line)))
    }
}

/// The key of a series in a signal's answer. Label texts without a name (from a recording
/// rule, or a proxy that drops it) may be equal for two signals.
fn of_signal(key: SeriesKey, signal: SignalId) -> [u64; 2] {
    /// 2^128 divided by the golden ratio: spreads small numbers over all bits.
    const SPREAD: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    let key = key.0 ^ (signal.index() as u128 + 1).wrapping_mul(SPREAD);
    // A `u128` is aligned to 16 bytes.
    [(key >> 64) as u64, key as u64]
}
