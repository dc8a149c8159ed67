//! From batches to snapshots.
//!
//! Pure: batches and times in, snapshots out. The caller asks [`Pipeline::range`] how far back
//! to query, passes the answers in and publishes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::Timestamp;

use crate::batch::Batch;
use crate::inventory::Inventory;
use crate::layout::Layout;
use crate::policy::{DeviceValue, Measure, MetricSpec, Policy};
use crate::signal::{SignalId, SignalSpec, Unit};
use crate::snapshot::Snapshot;
use crate::source::LATENESS_MAX_MS;
use crate::store::{IntakeReport, PROFILING, Store};

/// A clock that goes back by more than this invalidates all samples.
const BACK_MS: i64 = 120_000;

/// How often ended lines are removed, and unknown ones are looked for: signals that no device
/// needed, and samples as late as they may be.
const UPKEEP_MS: i64 = 60_000;

/// The longest time that an unanswered signal delays readiness.
const READY_AFTER_MS: i64 = 60_000;

/// The settings of a pipeline.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How readings become values.
    pub policy: Policy,
    /// All signals polled.
    pub signals: Vec<SignalSpec>,
    /// All metrics served.
    pub metrics: Vec<MetricSpec>,
}

/// Batches in, snapshots out.
#[derive(Debug)]
pub struct Pipeline {
    settings: Settings,
    metrics: Arc<[MetricSpec]>,
    store: Store,
    /// By signal, the time of the last query that was answered.
    answered: Vec<Option<Timestamp>>,
    /// The earliest time of samples that may not have been read yet.
    unread: Timestamp,
    /// When samples as late as they may be were last looked for.
    looked: Timestamp,
    /// The time of the last query of which samples were taken in, and of the first one.
    latest: Timestamp,
    began: Option<Timestamp>,
    layout: Arc<Layout>,
    layout_of: Option<(u64, Arc<Inventory>)>,
    swept: Timestamp,
}

impl Pipeline {
    /// An empty pipeline.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let policy = Arc::new(settings.policy.clone());
        let mut specs = settings.signals.clone();
        for spec in &mut specs {
            if spec.unit == Unit::Percent && policy.percent_as_ratio == Some(true) {
                spec.unit = Unit::Ratio;
            }
        }
        let count = specs.iter().map(|spec| spec.id.index() + 1).max();
        let needed = needed_of_whole_gpus(&settings.metrics);
        Self {
            answered: vec![None; count.unwrap_or(0)],
            unread: Timestamp::MAX,
            looked: Timestamp::MIN,
            latest: Timestamp::MIN,
            metrics: settings.metrics.clone().into(),
            settings,
            store: Store::new(policy, specs, needed),
            began: None,
            layout: Arc::default(),
            layout_of: None,
            swept: Timestamp::MIN,
        }
    }

    /// How far back from `now` the next query of a signal must reach: at a start over the
    /// whole past that is needed, later only to new samples and those that may arrive late.
    #[must_use]
    pub fn range(&self, signal: SignalId, now: Timestamp) -> Duration {
        let fresh_ms = self.store.longest_fresh_ms + self.store.sources.longest_lag_ms();
        let back_ms = self.store.back_ms;
        let wanted_ms = match self.last_answer(signal) {
            Some(last) => now.millis() - last.min(self.unread).millis() + fresh_ms,
            None => back_ms,
        };
        // A clock set back must not shrink the range to nothing.
        let range_ms = wanted_ms.clamp(fresh_ms.min(back_ms), back_ms);
        Duration::from_millis(range_ms.unsigned_abs())
    }

    fn last_answer(&self, signal: SignalId) -> Option<Timestamp> {
        self.answered.get(signal.index()).copied().flatten()
    }

    /// Whether to query a signal: profiling fields only where a device needs them, and now
    /// and then to check whether one does.
    #[must_use]
    pub fn is_wanted(&self, signal: SignalId, now: Timestamp) -> bool {
        let is_long_ago = |last: Timestamp| now.millis() - last.millis() >= UPKEEP_MS;
        !PROFILING.contains(&signal)
            || self.store.has_signal(signal)
            || self.store.needed_whole.contains(&signal)
            || self.last_answer(signal).is_none_or(is_long_ago)
    }

    /// Takes a batch that answers a query over [`Pipeline::range`] at `now`.
    pub fn take(&mut self, batch: &Batch, now: Timestamp) -> IntakeReport {
        let report = self.take_part(batch, now);
        self.answered(batch.signal, now);
        report
    }

    /// Takes a batch that answers a query over a part of the range.
    pub fn take_part(&mut self, batch: &Batch, now: Timestamp) -> IntakeReport {
        self.start_over_if_set_back(now);
        self.latest = now;
        self.began.get_or_insert(now);
        self.store.advance(now);
        self.store.take(batch, now)
    }

    /// Records that the whole [`Pipeline::range`] of a signal at `now` was read.
    pub fn answered(&mut self, signal: SignalId, now: Timestamp) {
        if let Some(answered) = self.answered.get_mut(signal.index()) {
            *answered = Some(now);
        }
    }

    /// Starts over if the clock was set back: all samples lie in the future.
    pub fn start_over_if_set_back(&mut self, now: Timestamp) {
        if now.millis() + BACK_MS < self.latest.millis() {
            *self = Self {
                began: Some(now),
                ..Self::new(self.settings.clone())
            };
        }
    }

    /// Whether every needed signal was answered; an unanswered one delays readiness for at
    /// most a minute.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let Some(began) = self.began else {
            return self.store.series_len() == 0;
        };
        let mut signals = self.settings.signals.iter().map(|spec| spec.id);
        let are_read = signals.all(|it| self.last_answer(it).is_some() || !self.is_wanted(it, now));
        now.millis() - began.millis() >= READY_AFTER_MS || are_read
    }

    /// The samples.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Ends a round of queries: measures the sources, and sets the time from which the next
    /// round must read: the newest sample of the line furthest behind that may still send
    /// samples, and once a minute as far back as samples may be late.
    pub fn end_round(&mut self) {
        let latest = self.latest;
        if latest == Timestamp::MIN {
            return;
        }
        self.store.end_round(latest);
        self.unread = self.store.unread_since(latest).unwrap_or(Timestamp::MAX);
        if is_in_new_minute(latest, &mut self.looked) {
            let late = Timestamp::from_millis(latest.millis() - LATENESS_MAX_MS);
            self.unread = self.unread.min(late);
        }
    }

    /// Computes the values to serve from `now` on.
    pub fn publish(&mut self, inventory: &Arc<Inventory>, now: Timestamp) -> Snapshot {
        self.store.advance(now);
        if is_in_new_minute(now, &mut self.swept) {
            self.store.sweep(now);
        }
        let frame = self.store.frame(now, self.answered.clone());
        let generation = self.store.generation;
        let is_current = self
            .layout_of
            .as_ref()
            .is_some_and(|(of, known)| *of == generation && Arc::ptr_eq(known, inventory));
        if !is_current {
            let newest = |row: crate::grid::RowId| frame.times[row.0 as usize].newest;
            let layout = Layout::build(self.store.lines(), newest, inventory);
            self.layout = Arc::new(layout);
            self.layout_of = Some((generation, Arc::clone(inventory)));
        }
        let (layout, policy) = (Arc::clone(&self.layout), Arc::clone(&self.store.policy));
        Snapshot::compute(frame, layout, policy, Arc::clone(&self.metrics))
    }
}

/// Whether a time is in another minute than the last time that was.
fn is_in_new_minute(now: Timestamp, last: &mut Timestamp) -> bool {
    let minute = |at: Timestamp| at.millis().div_euclid(UPKEEP_MS);
    let before = std::mem::replace(last, now);
    minute(before) != minute(now)
}

/// Signals that metrics need of whole GPUs too.
fn needed_of_whole_gpus(metrics: &[MetricSpec]) -> HashSet<SignalId> {
    let signals = metrics.iter().filter_map(|metric| match metric.measure {
        Measure::Devices {
            value: DeviceValue::Signal(id),
            ..
        } => Some(id),
        _ => None,
    });
    signals.collect()
}
