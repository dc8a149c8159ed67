//! All samples of the retained past, line by line and instant by instant.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use apimachinery::labels::Labels;
use apimachinery::time::{Timestamp, millis};
use hashbrown::HashTable;
use indexmap::IndexMap;

use crate::batch::{Batch, BatchSeries, Sample, SeriesKey};
use crate::frozen::Movement;
use crate::gaps::Gaps;
use crate::grid::{Columns, Reading, RowId};
use crate::line::Line;
use crate::policy::Policy;
use crate::reading::AHEAD_MS;
use crate::signal::{SignalId, SignalSpec, Unit};
use crate::source::{Heard, LATENESS_MAX_MS, SourceId, Sources};
use crate::unit::Scale;
use crate::validity;

/// A sample this far in the future is an error, not clock skew.
const FUTURE_MS: i64 = 120_000;

/// How far back a start reads, and how long a line is kept after its last sample.
pub(crate) const START_MS: i64 = 1_200_000;

/// A line that is later than its source by more has a wrong clock or a slow agent.
const OWN_LATENESS_MS: i64 = 10_000;

/// After a longer time without answers, and than twice the time between polls, samples are read
/// that arrived at an unknown time.
const OUTAGE_MS: i64 = 30_000;

/// How many scrape intervals a sample is valid for.
const INTERVALS: i64 = 3;

/// The most series: enough for five hundred thousand GPUs with eight signals.
const MOST_SERIES: usize = 4_000_000;

/// Utilisation of memory and of whole GPUs, in percent.
const PERCENTS: [SignalId; 2] = [SignalId::MEM_COPY_UTIL, SignalId::GPU_UTIL];

/// The profiling fields that replace these where percents are missing.
pub const PROFILING: [SignalId; 2] = [SignalId::DRAM_ACTIVE, SignalId::GR_ENGINE_ACTIVE];

/// The outcome of a batch's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeReport {
    /// New and valid.
    pub accepted: u64,
    /// New, but no reading: sentinel, not a number, out of range.
    pub invalid: u64,
    pub repeated: u64,
    pub too_old: u64,
    pub future: u64,
    pub new_series: u64,
    /// Series whose labels could not be read or name no device.
    pub unidentified: u64,
    /// Series refused because there are too many.
    pub refused: u64,
}

/// The state of a series.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// Its samples go to a line.
    Stored(RowId),
    /// It is not needed, or nothing identifies its device.
    Ignored,
    Refused,
}

/// The times of a line's samples, and what follows from them.
#[derive(Clone, Copy, Debug)]
pub struct LineTimes {
    pub source: SourceId,
    pub rank: u8,
    /// S, milliseconds.
    pub scrape_ms: i64,
    /// F, milliseconds.
    pub fresh_ms: i64,
    /// How much later than its source it is, milliseconds, if F is longer by that.
    pub own_ms: i64,
    pub first: Timestamp,
    pub newest: Timestamp,
    /// Readings after the first and before the second time do not count.
    pub(crate) frozen: (Timestamp, Timestamp),
}

#[derive(Clone, Debug)]
struct Slot {
    line: Arc<Line>,
    source: SourceId,
    first: Timestamp,
    newest: Timestamp,
    gaps: Gaps,
    movement: Movement,
}

/// All samples. It has one writer; snapshots share its columns.
#[derive(Debug)]
pub struct Store {
    policy: Arc<Policy>,
    specs: Vec<SignalSpec>,
    /// Profiling signals that are kept for whole GPUs too.
    needed_whole: HashSet<SignalId>,
    lines: Vec<Option<Slot>>,
    free: Vec<RowId>,
    ids: HashTable<RowId>,
    hasher: RandomState,
    /// In the order in which the series were first seen, which is that of most answers.
    known: IndexMap<[u64; 2], Known>,
    next: usize,
    texts: HashSet<Arc<str>>,
    signals: Vec<Columns>,
    pub(crate) sources: Sources,
    /// The time of the last round, and since the one before, milliseconds.
    round: Timestamp,
    pace_ms: i64,
    /// How far back a start reads, milliseconds.
    back_ms: i64,
    /// The largest F, milliseconds.
    longest_fresh_ms: i64,
    oldest: Timestamp,
    /// A line with a sample since this time is heard.
    recent: Timestamp,
    /// Counts changes of the set of lines.
    generation: u64,
}

/// An immutable view of the samples at one time.
#[derive(Clone, Debug)]
pub struct Frame {
    pub now: Timestamp,
    pub step_ms: i64,
    pub(crate) signals: Vec<Columns>,
    /// By line; the times of a free place lie outside of all windows.
    pub times: Arc<[LineTimes]>,
    pub sources: Arc<Sources>,
    /// By source, how many instants it is behind one without lateness.
    behind: Vec<i64>,
    /// The fields of sources whose unit is unknown, by the place of the field's name.
    pub unknown_units: Vec<(SourceId, SignalId, u8)>,
    pub(crate) percent_as_ratio: Option<bool>,
    /// The fields in percent.
    percents: Vec<SignalId>,
    /// By signal, whether its query was ever answered; if not, any device may have it.
    answered: Vec<bool>,
}

impl Store {
    pub(crate) fn new(
        policy: Arc<Policy>,
        specs: Vec<SignalSpec>,
        needed_whole: HashSet<SignalId>,
    ) -> Self {
        let longest_fresh_ms = fresh_ms(&policy, crate::source::ASSUMED_MS);
        let window_ms = millis(policy.max_window) + millis(policy.hold);
        let count = specs.iter().map(|spec| spec.id.index() + 1).max();
        Self {
            policy,
            needed_whole,
            lines: Vec::new(),
            free: Vec::new(),
            ids: HashTable::new(),
            hasher: RandomState::new(),
            known: IndexMap::new(),
            next: 0,
            texts: HashSet::new(),
            signals: vec![Columns::default(); count.unwrap_or(0)],
            specs,
            sources: Sources::default(),
            round: Timestamp::MIN,
            pace_ms: 0,
            back_ms: START_MS.max(window_ms + longest_fresh_ms),
            longest_fresh_ms,
            oldest: Timestamp::MIN,
            recent: Timestamp::MIN,
            generation: 0,
        }
    }

    fn step_ms(&self) -> i64 {
        millis(self.policy.step).max(1)
    }

    /// How far back a start reads, milliseconds.
    pub(crate) fn back_ms(&self) -> i64 {
        self.back_ms
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
        match self.known.get_index(place).map(|(_, known)| *known)? {
            Known::Stored(row) => Some(row),
            Known::Ignored => None,
            Known::Refused => {
                report.refused += 1;
                None
            }
        }
    }

    /// Reads the labels of a series that is seen for the first time.
    fn learn(
        &mut self,
        key: [u64; 2],
        text: &str,
        signal: SignalId,
        report: &mut IntakeReport,
    ) -> Option<RowId> {
        report.new_series += 1;
        let line = Labels::from_json(text).ok().and_then(|labels| {
            let name = labels.get("__name__").unwrap_or_default();
            let spec = self.specs.iter().find(|spec| spec.id == signal)?;
            let mut names = spec.wire_names.iter();
            let rank = names.position(|it| it.eq_ignore_ascii_case(name));
            Line::read(&labels, u8::try_from(rank.unwrap_or(0)).unwrap_or(u8::MAX))
        });
        let state = match line {
            None => {
                report.unidentified += 1;
                Known::Ignored
            }
            Some(_) if self.known.len() >= MOST_SERIES => {
                report.refused += 1;
                Known::Refused
            }
            Some(line) if self.is_superfluous(&line, signal) => Known::Ignored,
            Some(line) => Known::Stored(self.register(line)),
        };
        self.known.insert(key, state);
        self.next = self.known.len();
        match state {
            Known::Stored(row) => Some(row),
            Known::Ignored | Known::Refused => None,
        }
    }

    /// Whether no value needs a series: a profiling field of a whole GPU that is reported in
    /// percent.
    fn is_superfluous(&self, line: &Line, signal: SignalId) -> bool {
        let Some(place) = PROFILING.iter().position(|it| *it == signal) else {
            return false;
        };
        let reports = |row: RowId| {
            let slot = self.lines[row.0 as usize].as_ref();
            let columns = self.signals.get(PERCENTS[place].index());
            slot.zip(columns).is_some_and(|(slot, columns)| {
                let index = crate::grid::instant_from(slot.newest, self.step_ms());
                let last = columns.last_reading(row, index, self.step_ms());
                last.is_some_and(|last| last.at >= self.recent)
            })
        };
        !line.device.is_mig()
            && !self.needed_whole.contains(&signal)
            && self.find(line).is_some_and(reports)
    }

    fn find(&self, line: &Line) -> Option<RowId> {
        let is_it = |id: &RowId| {
            let slot = self.lines[id.0 as usize].as_ref();
            slot.is_some_and(|slot| *slot.line == *line)
        };
        self.ids.find(self.hash(line), is_it).copied()
    }

    fn hash(&self, line: &Line) -> u64 {
        self.hasher.hash_one((&line.labels, line.rank))
    }

    fn register(&mut self, line: Line) -> RowId {
        if let Some(id) = self.find(&line) {
            return id;
        }
        self.generation += 1;
        let line = self.intern(line);
        let source = self.sources.register(&line.source, &line.job);
        let hash = self.hash(&line);
        let slot = Slot {
            line: Arc::new(line),
            source,
            first: Timestamp::MAX,
            newest: Timestamp::MIN,
            gaps: Gaps::NONE,
            movement: Movement::NONE,
        };
        let id = if let Some(id) = self.free.pop() {
            self.lines[id.0 as usize] = Some(slot);
            // Columns may still hold samples of the former line.
            let step_ms = self.step_ms();
            for columns in &mut self.signals {
                columns.forget(id, step_ms, |_| true);
            }
            id
        } else {
            self.lines.push(Some(slot));
            RowId(u32::try_from(self.lines.len() - 1).unwrap_or(u32::MAX))
        };
        let (lines, hasher) = (&self.lines, &self.hasher);
        let hash_of = |id: &RowId| {
            let slot = lines[id.0 as usize].as_ref();
            slot.map_or(0, |slot| {
                hasher.hash_one((&slot.line.labels, slot.line.rank))
            })
        };
        self.ids.insert_unique(hash, id, hash_of);
        id
    }

    /// Shares equal texts: most label values repeat over a fleet.
    fn intern(&mut self, mut line: Line) -> Line {
        let texts = &mut self.texts;
        let mut share = |text: &mut Arc<str>| match texts.get(text) {
            Some(known) => *text = Arc::clone(known),
            None => {
                texts.insert(Arc::clone(text));
            }
        };
        share(&mut line.device.uuid);
        if let Some(owner) = &mut line.owner {
            share(&mut owner.namespace);
            share(&mut owner.pod);
            owner.container.as_mut().into_iter().for_each(&mut share);
        }
        line.nodes.iter_mut().for_each(|node| share(&mut node.name));
        line.nodes.shrink_to_fit();
        line.cluster.as_mut().into_iter().for_each(&mut share);
        share(&mut line.job);
        share(&mut line.source);
        share(&mut line.instance);
        let pairs = line.labels.iter().map(|(name, value)| {
            let (mut name, mut value) = (Arc::clone(name), Arc::clone(value));
            share(&mut name);
            share(&mut value);
            (name, value)
        });
        let pairs: Vec<_> = pairs.collect();
        line.labels = Labels::from_pairs(pairs);
        line
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
        let from = now.millis() - self.back_ms();
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
        let index = crate::grid::instant_from(now, step_ms) + FUTURE_MS / step_ms;
        let known = columns.last_reading(row, index, step_ms);
        let newest = known.map_or(Timestamp::MIN, |it| it.at);
        let mut before = known.map(|it| it.value);
        slot.gaps.take(samples);
        // A staleness marker, which some stores return as NaN, ends a line.
        let mut named = samples.iter().filter(|sample| !sample.value.is_nan());
        if let Some(first) = named.next() {
            let last = named.next_back().unwrap_or(first);
            slot.first = slot.first.min(first.at);
            slot.newest = slot.newest.max(last.at);
        }
        // The last reading of a device that has been silent for long decides about means.
        let is_reading = |sample: &&Sample| validity::stored(unit, sample.value).is_some();
        let last = samples.iter().rfind(is_reading).map(|sample| sample.at);
        for sample in samples {
            let value = validity::stored(unit, sample.value);
            let reading = Reading {
                value: value.unwrap_or(f64::NAN),
                at: sample.at,
            };
            let is_last = sample.at > newest && Some(sample.at) == last;
            let is_kept = sample.at > self.oldest || is_last;
            if let Some(value) = value.filter(|_| sample.at > newest) {
                slot.movement.take((signal, unit), before, value, sample.at);
                before = Some(value);
            }
            let is_new = is_kept && columns.put(row, reading, step_ms);
            match (is_new, value) {
                (false, _) => report.repeated += 1,
                (true, None) => report.invalid += 1,
                (true, Some(value)) => {
                    report.accepted += 1;
                    if unit == Unit::Percent {
                        let of = (slot.source, signal, slot.line.rank);
                        self.sources.show_unit(of, value, sample.at);
                    }
                }
            }
        }
    }

    /// Measures the sources after a round of queries at `now`.
    pub(crate) fn end_round(&mut self, now: Timestamp) {
        let since_ms = now.millis().saturating_sub(self.round.millis());
        let arrived_unseen = since_ms > OUTAGE_MS.max(2 * self.pace_ms);
        if since_ms > 0 {
            (self.round, self.pace_ms) = (now, since_ms.min(2 * OUTAGE_MS));
        }
        self.sources.judge_units();
        for slot in self.lines.iter_mut().flatten() {
            slot.gaps.measure(now, LATENESS_MAX_MS, arrived_unseen);
            let scrape_ms = scrape_ms(&self.policy, &self.sources, slot);
            slot.movement.judge(slot.newest, scrape_ms);
        }
        let slots = self.lines.iter().flatten();
        let slots = slots.filter(|slot| slot.gaps.measured > Timestamp::MIN);
        let (policy, sources) = (&self.policy, &self.sources.clone());
        let heard = slots.map(|slot| {
            let read_ms = now.millis() - slot.gaps.read.millis();
            let is_read = read_ms <= fresh_ms(policy, scrape_ms(policy, sources, slot));
            Heard {
                source: slot.source,
                scrape_ms: slot.gaps.scrape_ms(),
                late_ms: slot.gaps.late_ms().filter(|_| is_read),
                age_ms: i64::from(slot.gaps.age_ms),
            }
        });
        self.sources.measure(heard);
        let longest = self
            .lines
            .iter()
            .flatten()
            .map(|slot| self.fresh_ms(slot))
            .max();
        self.longest_fresh_ms = longest.unwrap_or(self.longest_fresh_ms);
    }

    fn scrape_ms(&self, slot: &Slot) -> i64 {
        scrape_ms(&self.policy, &self.sources, slot)
    }

    /// F of a line, milliseconds. A line that is later than its source is valid for as much
    /// longer.
    fn fresh_ms(&self, slot: &Slot) -> i64 {
        fresh_ms(&self.policy, self.scrape_ms(slot)) + self.own_ms(slot)
    }

    /// How much later than its source a line is, milliseconds; 0: not notably.
    fn own_ms(&self, slot: &Slot) -> i64 {
        let late_ms = slot.gaps.late_ms().unwrap_or(0);
        let own_ms = late_ms - self.sources.lag_ms(slot.source);
        if own_ms > OWN_LATENESS_MS { own_ms } else { 0 }
    }

    /// The largest F, milliseconds.
    pub(crate) fn longest_fresh_ms(&self) -> i64 {
        self.longest_fresh_ms
    }

    /// The shortest S, milliseconds; `None` without lines.
    #[must_use]
    pub fn shortest_scrape_ms(&self) -> Option<i64> {
        let slots = self.lines.iter().flatten();
        slots.map(|slot| self.scrape_ms(slot)).min()
    }

    /// The earliest time of samples that may not have been read yet: the newest sample of the
    /// line furthest behind, of those that may still send samples. If none may, it is the
    /// newest sample of all.
    pub(crate) fn unread_since(&self, now: Timestamp) -> Option<Timestamp> {
        let slots = self.lines.iter().flatten();
        let heard = slots.map(|slot| (slot.gaps.newest, self.fresh_ms(slot)));
        let heard = heard.filter(|(newest, _)| *newest > Timestamp::MIN);
        let awaited = heard.clone().filter(|(newest, fresh_ms)| {
            now.millis() - newest.millis() <= fresh_ms + LATENESS_MAX_MS
        });
        let times = |(newest, _)| newest;
        awaited.map(times).min().or_else(|| heard.map(times).max())
    }

    /// Whether a series of the signal is kept.
    pub(crate) fn has_signal(&self, signal: SignalId) -> bool {
        let columns = self.signals.get(signal.index());
        columns.is_some_and(|columns| !columns.is_empty())
    }

    pub(crate) fn needs_of_whole_gpus(&self, signal: SignalId) -> bool {
        self.needed_whole.contains(&signal)
    }

    /// How many series are known.
    #[must_use]
    pub fn series_len(&self) -> usize {
        let stored = self.known.values();
        stored
            .filter(|known| matches!(known, Known::Stored(_)))
            .count()
    }

    /// Changes whenever a line is added or removed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Removes samples that no window can use any more. Call before a batch is applied.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let (step_ms, fresh_ms) = (self.step_ms(), self.longest_fresh_ms());
        let lag_ms = self.sources.longest_lag_ms();
        let window_ms = millis(self.policy.max_window) + millis(self.policy.hold);
        self.oldest =
            Timestamp::from_millis(now.millis() - window_ms - fresh_ms - step_ms - lag_ms);
        self.recent = Timestamp::from_millis(now.millis() - fresh_ms - lag_ms);
        let index = self.oldest.millis().div_euclid(step_ms);
        for columns in &mut self.signals {
            columns.retain_from(index, step_ms);
        }
    }

    /// Forgets lines without a sample for as long as a start reads back, and series that are
    /// not needed. All replicas forget at the same times.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        let limit = now.millis() - self.back_ms();
        let mut gone = HashSet::new();
        for (place, slot) in (0..).zip(&mut self.lines) {
            let ended = slot.take_if(|slot| slot.newest.millis() < limit);
            if let Some(ended) = ended {
                let hash = self.hasher.hash_one((&ended.line.labels, ended.line.rank));
                if let Ok(known) = self.ids.find_entry(hash, |id| id.0 == place) {
                    known.remove();
                }
                self.free.push(RowId(place));
                gone.insert(RowId(place));
                self.generation += 1;
            }
        }
        let used = self.lines.iter().flatten().map(|slot| slot.source);
        self.sources.retain(&used.collect());
        self.known.retain(|_, known| match known {
            Known::Stored(row) => !gone.contains(row),
            // Devices that no longer report percents need what was superfluous before.
            Known::Ignored | Known::Refused => false,
        });
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    /// Removes all samples, because the clock went back.
    pub(crate) fn clear(&mut self) {
        self.signals.fill(Columns::default());
        for slot in self.lines.iter_mut().flatten() {
            (slot.gaps, slot.movement) = (Gaps::NONE, Movement::NONE);
            (slot.first, slot.newest) = (Timestamp::MAX, Timestamp::MIN);
        }
        self.sources.clear();
        self.round = Timestamp::MIN;
        self.generation += 1;
    }

    /// The lines in use.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (RowId, &Arc<Line>)> {
        let all = (0..).map(RowId).zip(&self.lines);
        all.filter_map(|(id, slot)| Some((id, &slot.as_ref()?.line)))
    }

    /// An immutable view of all samples.
    pub(crate) fn frame(&self, now: Timestamp, answered: Vec<bool>) -> Frame {
        let times = self.lines.iter().map(|slot| match slot {
            Some(slot) => LineTimes {
                source: slot.source,
                rank: slot.line.rank,
                scrape_ms: self.scrape_ms(slot),
                fresh_ms: self.fresh_ms(slot),
                own_ms: self.own_ms(slot),
                first: slot.first,
                newest: slot.newest,
                frozen: slot.movement.frozen,
            },
            None => LineTimes::NONE,
        });
        let step_ms = self.step_ms();
        let end = |lag_ms: i64| (now.millis() - lag_ms + AHEAD_MS).div_euclid(step_ms);
        let sources = self.sources.all().iter();
        let doubt_ms = millis(self.policy.max_window);
        let since = Timestamp::from_millis(now.millis() - doubt_ms);
        Frame {
            now,
            step_ms,
            signals: self.signals.clone(),
            times: times.collect(),
            behind: sources.map(|it| end(0) - end(it.lag_ms)).collect(),
            sources: Arc::new(self.sources.clone()),
            unknown_units: match self.policy.percent_as_ratio {
                Some(_) => Vec::new(),
                None => self.sources.of_unknown_unit(since),
            },
            percent_as_ratio: self.policy.percent_as_ratio,
            answered,
            percents: {
                let specs = self.specs.iter().filter(|spec| spec.unit == Unit::Percent);
                specs.map(|spec| spec.id).collect()
            },
        }
    }
}

fn scrape_ms(policy: &Policy, sources: &Sources, slot: &Slot) -> i64 {
    let set = policy.scrape_interval.map(millis);
    let own = set.or_else(|| slot.gaps.scrape_ms());
    own.unwrap_or_else(|| sources.scrape_ms(slot.source))
}

/// F by S.
fn fresh_ms(policy: &Policy, scrape_ms: i64) -> i64 {
    (INTERVALS * scrape_ms).max(millis(policy.freshness))
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

impl LineTimes {
    const NONE: Self = Self {
        source: SourceId(0),
        rank: 0,
        scrape_ms: 0,
        fresh_ms: 0,
        own_ms: 0,
        first: Timestamp::MAX,
        newest: Timestamp::MIN,
        frozen: (Timestamp::MIN, Timestamp::MIN),
    };

    /// Since when the readings of the line have not moved, though its GPU is busy.
    #[must_use]
    pub fn frozen_since(&self) -> Option<Timestamp> {
        let (since, until) = self.frozen;
        (until == Timestamp::MAX).then_some(since)
    }
}

impl Frame {
    /// Whether the query of a signal was ever answered; if not, any device may have it.
    #[must_use]
    pub fn is_answered(&self, signal: SignalId) -> bool {
        self.answered.get(signal.index()).copied().unwrap_or(true)
    }

    /// The reading of a stored value; `None`: its unit is unknown, or it is none.
    #[inline]
    pub(crate) fn scaled(&self, row: RowId, signal: SignalId, stored: Reading) -> Option<Reading> {
        let times = &self.times[row.0 as usize];
        let is_percent = self.percents.contains(&signal);
        let of = (times.source, signal, times.rank);
        let is_unknown = !self.unknown_units.is_empty()
            && stored.value != 0.0
            && self.unknown_units.binary_search(&of).is_ok();
        let value = match self.percent_as_ratio {
            Some(true) if is_percent => {
                validity::reading(Unit::Percent, stored.value, Scale::Ratio)?
            }
            _ if is_unknown => return None,
            _ => stored.value,
        };
        (!value.is_nan()).then_some(Reading { value, ..stored })
    }

    /// Whether a line was frozen when a sample was taken.
    pub(crate) fn is_frozen(&self, row: RowId, at: Timestamp) -> bool {
        let (since, until) = self.times[row.0 as usize].frozen;
        since < at && at < until
    }

    /// The times of lines.
    pub(crate) fn times_of<'a>(
        &'a self,
        rows: &'a [RowId],
    ) -> impl Iterator<Item = &'a LineTimes> + Clone {
        rows.iter().map(|row| &self.times[row.0 as usize])
    }

    /// How many instants a source is behind one without lateness.
    #[inline]
    pub(crate) fn behind(&self, source: SourceId) -> i64 {
        self.behind.get(usize::from(source.0)).copied().unwrap_or(0)
    }

    /// The same of the latest source.
    pub(crate) fn latest_behind(&self) -> i64 {
        self.behind.iter().max().copied().unwrap_or(0)
    }

    /// The first sample of lines after a time, of any field.
    pub(crate) fn first_after(&self, rows: &[RowId], at: Timestamp) -> Option<Timestamp> {
        let of_signal = |columns: &Columns| {
            let rows = rows.iter();
            rows.filter_map(|row| columns.first_after(*row, at, self.step_ms))
                .min()
        };
        self.signals.iter().filter_map(of_signal).min()
    }
}
