//! From batches to snapshots: intake, store, layout and values in one type.
//!
//! Pure: batches and times in, snapshots out. The caller asks
//! [`Pipeline::range`] how far back to query, passes the answers in and publishes.

mod reads;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Batch, PrometheusId};
use crate::dcgm::intake::{Intake, IntakeReport, PROFILING};
use crate::dcgm::schemes::ExporterIdentity;
use crate::inventory::Inventory;
use crate::layout::Layout;
use crate::policy::{Activity, ActivityCondition, DeviceValue, Measure, MetricSpec, Policy};
use crate::signal::{SignalId, SignalSpec};
use crate::snapshot::Snapshot;
use crate::store::{Store, StoreSettings};
use crate::targets::Intervals;
use crate::unit::Scale;
use apimachinery::time::{Timestamp, millis};

use reads::Reads;

/// A clock that goes back by more than this invalidates all samples.
const BACK_MS: i64 = 120_000;

/// How often ended series are removed.
const SWEEP_MS: i64 = 60_000;

/// How far back a start reads: twenty scrapes a minute apart show the interval, and ten
/// minutes show whether readings change.
const START_MS: i64 = 1_200_000;

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
    /// How exporters are recognised.
    pub exporter: ExporterIdentity,
    /// How many Prometheus servers are polled; each has devices of its own.
    pub prometheus: u8,
}

/// Batches in, snapshots out.
#[derive(Debug)]
pub struct Pipeline {
    policy: Arc<Policy>,
    metrics: Arc<[MetricSpec]>,
    signals: Vec<SignalId>,
    intake: Intake,
    store: Store,
    /// What was read of each Prometheus, by its id.
    reads: Vec<Reads>,
    /// When the first samples were taken in.
    began: Option<Timestamp>,
    layout: Arc<Layout>,
    layout_of: Option<(u64, Arc<Inventory>)>,
    swept: Timestamp,
}

impl Pipeline {
    /// An empty pipeline.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let policy = settings.policy;
        let signals = settings
            .signals
            .iter()
            .map(|spec| spec.id.index() + 1)
            .max()
            .unwrap_or(0);
        let intervals = Intervals {
            scrape_ms: policy.scrape_interval.map(millis),
            fresh_ms: millis(policy.freshness),
        };
        let window_ms = millis(policy.max_window) + millis(policy.hold);
        let store = |back_ms| {
            Store::new(StoreSettings {
                step_ms: millis(policy.step).max(1),
                window_ms,
                back_ms,
                scale: policy.percent_as_ratio.map(Scale::set),
                signals,
                intervals,
            })
        };
        let fresh_ms = store(0).targets().longest_fresh_ms();
        let back_ms = START_MS.max(window_ms + fresh_ms);
        let store = store(back_ms);
        let needed = needed_of_whole_gpus(&policy, &settings.metrics);
        Self {
            policy: Arc::new(policy),
            metrics: settings.metrics.into(),
            signals: settings.signals.iter().map(|spec| spec.id).collect(),
            intake: Intake::new(settings.signals, settings.exporter, needed),
            store,
            reads: (0..settings.prometheus)
                .map(|id| Reads::new(PrometheusId(id), signals, back_ms))
                .collect(),
            began: None,
            layout: Arc::default(),
            layout_of: None,
            swept: Timestamp::MIN,
        }
    }

    /// How far back from `now` the next query of a signal must reach: at a start over the
    /// whole past that is needed, later only to new samples and those that may arrive late.
    ///
    /// # Panics
    /// If there is no such Prometheus server. All functions with a [`PrometheusId`] panic then.
    #[must_use]
    pub fn range(&self, of: PrometheusId, signal: SignalId, now: Timestamp) -> Duration {
        self.reads_of(of).range(signal, now, self.store.targets())
    }

    fn reads_of(&self, of: PrometheusId) -> &Reads {
        &self.reads[usize::from(of.0)]
    }

    fn reads_mut(&mut self, of: PrometheusId) -> &mut Reads {
        &mut self.reads[usize::from(of.0)]
    }

    /// Whether to query a signal: profiling fields only where a device needs them, and
    /// now and then to check whether one does.
    #[must_use]
    pub fn is_wanted(&self, of: PrometheusId, signal: SignalId, now: Timestamp) -> bool {
        !PROFILING.contains(&signal)
            || self.store.has_signal(signal)
            || self.intake.needs_of_whole_gpus(signal)
            || self.intake.is_lacking(signal)
            || self.reads_of(of).is_long_ago(signal, now)
    }

    /// Takes a batch that answers a query over [`Pipeline::range`] at `now`.
    pub fn take(&mut self, batch: &Batch, now: Timestamp) -> IntakeReport {
        let report = self.take_part(batch, now);
        self.answered(batch.prometheus, batch.signal, now);
        report
    }

    /// Records that the whole [`Pipeline::range`] of a signal at `now` was read.
    pub fn answered(&mut self, of: PrometheusId, signal: SignalId, now: Timestamp) {
        let has_series = self.store.has_signal(signal);
        self.reads_mut(of).answered(signal, now, has_series);
    }

    /// Removes all samples if the clock was set back, because they lie in the future. Then
    /// [`Pipeline::range`] is that of a start again.
    pub fn start_over_if_set_back(&mut self, of: PrometheusId, now: Timestamp) {
        if now.millis() + BACK_MS < self.reads_of(of).latest().millis() {
            self.store.clear();
            self.reads.iter_mut().for_each(Reads::start_over);
            self.swept = Timestamp::MIN;
            self.began = None;
        }
    }

    /// Takes a batch that answers a query over a part of the range.
    pub fn take_part(&mut self, batch: &Batch, now: Timestamp) -> IntakeReport {
        let of = batch.prometheus;
        self.start_over_if_set_back(of, now);
        self.reads_mut(of).asked(now);
        self.began.get_or_insert(now);
        self.store.advance(now);
        let report = self.intake.take(batch, &mut self.store, now);
        if report.applied.accepted + report.applied.invalid > 0 {
            self.reads_mut(of).sampled(batch.signal);
        }
        report
    }

    /// Whether any query was answered.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.began.is_some()
    }

    /// Whether every needed signal was answered; an unanswered one delays readiness for
    /// at most a minute.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let Some(began) = self.began else {
            return self.store.series_len() == 0;
        };
        let is_read = |reads: &Reads| {
            let mut signals = self.signals.iter();
            signals.all(|it| reads.is_answered(*it) || !self.is_wanted(reads.of(), *it, now))
        };
        now.millis() - began.millis() >= READY_AFTER_MS || self.reads.iter().all(is_read)
    }

    /// Whether each signal was answered by every Prometheus that has answered any: before
    /// that, it is unknown which devices have it.
    fn are_answered(&self) -> Vec<bool> {
        let known = self.reads.iter().filter(|reads| reads.has_answered());
        let known: Vec<&Reads> = known.collect();
        let is_answered = |id| !known.is_empty() && known.iter().all(|it| it.is_answered(id));
        let last = self.signals.iter().max().map_or(0, |id| id.0 + 1);
        (0..last).map(|id| is_answered(SignalId(id))).collect()
    }

    /// The samples (for explanations and tests).
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Ends a round of queries to a Prometheus: measures its targets, and sets the time from
    /// which the next round must read.
    pub fn end_round(&mut self, of: PrometheusId) {
        self.intake.end_round();
        let reads = &mut self.reads[usize::from(of.0)];
        let latest = reads.latest();
        if latest > Timestamp::MIN {
            self.store.end_round(of, latest);
            reads.end_round(self.store.targets(), latest);
        }
    }

    /// Computes the values to serve from `now` on.
    pub fn publish(&mut self, inventory: &Arc<Inventory>, now: Timestamp) -> Snapshot {
        self.store.advance(now);
        // All replicas sweep at the same times, because a removed series no longer counts
        // as missing. The first layout shows which rows live pods hold.
        let is_due = now.millis().div_euclid(SWEEP_MS) != self.swept.millis().div_euclid(SWEEP_MS);
        if is_due && self.layout_of.is_some() {
            self.swept = now;
            let layout = Arc::clone(&self.layout);
            let gone = self.store.sweep(now, |row| layout.is_missed(row));
            self.intake.sweep(&gone, &self.store);
        }
        let generation = self.store.generation();
        let current = self
            .layout_of
            .as_ref()
            .is_some_and(|(of, known)| *of == generation && Arc::ptr_eq(known, inventory))
            && !self.layout.is_outdated(|row| self.store.newest(row));
        if !current {
            self.layout = Arc::new(Layout::build(
                self.store.rows(),
                |row| self.store.newest(row),
                Arc::clone(inventory),
                self.policy.mig_weight,
            ));
            self.layout_of = Some((generation, Arc::clone(inventory)));
        }
        Snapshot::compute(
            self.store.frame(now, self.are_answered()),
            Arc::clone(&self.layout),
            Arc::clone(&self.policy),
            Arc::clone(&self.metrics),
        )
    }
}

/// Profiling signals that predicates or metrics need of whole GPUs too.
fn needed_of_whole_gpus(policy: &Policy, metrics: &[MetricSpec]) -> HashSet<SignalId> {
    let conditions = match &policy.activity {
        Activity::OwnValueAboveZero => &[][..],
        Activity::Any(conditions) | Activity::All(conditions) => conditions,
    };
    let of_conditions = conditions.iter().filter_map(|condition| match condition {
        ActivityCondition::Above(DeviceValue::Signal(id), _) => Some(*id),
        ActivityCondition::Above(..) | ActivityCondition::Allocated => None,
    });
    let of_metrics = metrics.iter().filter_map(|metric| match metric.measure {
        Measure::Devices {
            value: DeviceValue::Signal(id),
            ..
        } => Some(id),
        Measure::Devices { .. }
        | Measure::HeldCount
        | Measure::ActiveCount
        | Measure::IdleCount
        | Measure::OriginalAverage => None,
    });
    of_conditions.chain(of_metrics).collect()
}
