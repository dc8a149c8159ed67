//! From batches to snapshots: intake, store, layout and values in one type.
//!
//! Pure: batches and times in, snapshots and log messages out. The caller asks
//! [`Pipeline::range`] how far back to query, passes the answers in and publishes.

mod notices;
mod reads;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::Batch;
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

use notices::Notices;
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
}

/// Batches in, snapshots out.
#[derive(Debug)]
pub struct Pipeline {
    policy: Arc<Policy>,
    metrics: Arc<[MetricSpec]>,
    signals: Vec<SignalId>,
    intake: Intake,
    store: Store,
    reads: Reads,
    notices: Notices,
    /// When the first samples were taken in.
    began: Option<Timestamp>,
    /// The end of the last measured round.
    measured: Timestamp,
    layout: Arc<Layout>,
    layout_of: Option<(u64, Arc<Inventory>)>,
    swept: Timestamp,
    latest: Timestamp,
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
            reads: Reads::new(signals, back_ms),
            notices: Notices::default(),
            began: None,
            measured: Timestamp::MIN,
            layout: Arc::default(),
            layout_of: None,
            swept: Timestamp::MIN,
            latest: Timestamp::MIN,
        }
    }

    /// How far back from `now` the next query of a signal must reach: as far as a start
    /// reads at first, later only to new samples and those that may arrive late.
    #[must_use]
    pub fn range(&self, signal: SignalId, now: Timestamp) -> Duration {
        self.reads.range(signal, now, self.store.targets())
    }

    /// Whether to query a signal: profiling fields only where a device needs them, and
    /// now and then to check whether one does.
    #[must_use]
    pub fn is_wanted(&self, signal: SignalId, now: Timestamp) -> bool {
        !PROFILING.contains(&signal)
            || self.store.has_signal(signal)
            || self.intake.needs_of_whole_gpus(signal)
            || self.is_looked_for(signal, now)
    }

    /// Whether to query MIG instances only: no whole GPU needs the signal, by the last
    /// check of all devices.
    #[must_use]
    pub fn is_of_mig_alone(&self, signal: SignalId, now: Timestamp) -> bool {
        PROFILING.contains(&signal)
            && self.store.is_of_mig_alone(signal)
            && !self.intake.needs_of_whole_gpus(signal)
            && !self.is_looked_for(signal, now)
    }

    fn is_looked_for(&self, signal: SignalId, now: Timestamp) -> bool {
        self.intake.is_lacking(signal) || self.reads.is_long_ago(signal, now)
    }

    /// Takes a batch that answers a query over [`Pipeline::range`] at `now`, or the last
    /// part of that range.
    pub fn take(&mut self, batch: &Batch, now: Timestamp) -> IntakeReport {
        let of_all = !self.is_of_mig_alone(batch.signal, now);
        let report = self.take_part(batch, now);
        // Without a new sample the signal was read no further: once the store continues,
        // reading resumes where it stopped.
        let news = report.applied.accepted + report.applied.invalid;
        let stopped = news == 0 && self.store.has_signal(batch.signal);
        let until = (!stopped).then_some(now);
        self.reads
            .answered(batch.signal, until, of_all.then_some(now));
        report
    }

    /// Takes a batch that answers a query over an earlier part of that range.
    pub fn take_part(&mut self, batch: &Batch, now: Timestamp) -> IntakeReport {
        if now.millis() + BACK_MS < self.latest.millis() {
            self.store.clear();
            self.reads.start_over();
            (self.swept, self.measured) = (Timestamp::MIN, Timestamp::MIN);
            self.began = None;
        }
        self.latest = now;
        self.began.get_or_insert(now);
        self.store.advance(now);
        self.intake.take(batch, &mut self.store, now)
    }

    /// Records that Prometheus refused a query over [`Pipeline::range`]: the range is
    /// smaller until a query is answered.
    pub fn refused(&mut self, signal: SignalId) {
        self.reads.refused(signal);
    }

    /// Whether every needed signal was answered; an unanswered one delays readiness for
    /// at most a minute.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let Some(began) = self.began else {
            return self.store.series_len() == 0;
        };
        let mut wanted = self.signals.iter().filter(|it| self.is_wanted(**it, now));
        now.millis() - began.millis() >= READY_AFTER_MS
            || wanted.all(|signal| self.reads.is_answered(*signal))
    }

    /// Log messages on findings since the last call.
    pub fn notices(&mut self) -> Vec<String> {
        self.notices.take(&self.store, &self.policy)
    }

    /// The samples (for explanations and tests).
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Computes the values to serve from `now` on.
    pub fn publish(&mut self, inventory: &Arc<Inventory>, now: Timestamp) -> Snapshot {
        // The times also differ after the clock was set back.
        if self.latest != self.measured {
            self.measured = self.latest;
            self.store.end_round(self.latest);
            self.reads.end_round(self.store.targets(), self.latest);
        }
        self.store.advance(now);
        // All replicas sweep at the same times, because a removed series is no longer
        // missed. The first layout shows which rows live pods hold.
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
            self.store.frame(now, self.reads.are_answered()),
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
