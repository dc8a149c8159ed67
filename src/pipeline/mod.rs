//! From batches to snapshots: intake, store, layout and values in one piece.
//!
//! Pure: batches and times in, snapshots and things worth logging out. The
//! wiring asks [`Pipeline::range`] how far back to query, hands over what came,
//! lets the pipeline judge intervals ([`Pipeline::settle`]) and publishes.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::core::batch::Batch;
use crate::core::duration::format_duration;
use crate::core::inventory::Inventory;
use crate::core::layout::{Layout, LayoutSettings};
use crate::core::policy::{Activity, Condition, DeviceValue, Measure, MetricSpec, Policy};
use crate::core::rhythm::Shown;
use crate::core::series::Scheme;
use crate::core::signal::{SignalId, SignalSpec};
use crate::core::snapshot::Snapshot;
use crate::core::store::{Job, Store, StoreSettings};
use crate::core::time::{Timestamp, millis};
use crate::core::timing::{ASSUMED, Overrides, Timing};
use crate::dcgm::intake::{Intake, Report};
use crate::dcgm::schemes::ExporterIdentity;

/// The default window, unless the data are too sparse for it.
const DEFAULT_WINDOW_MS: i64 = 60_000;

/// Once the windows were filled, the grid changes no more often than this: each
/// change asks Prometheus for the whole window again.
const REFILL_PAUSE_MS: i64 = 60_000;

/// The finest grid that is taken by itself: a window of five minutes then holds
/// 300 instants, which bounds memory whatever the data show.
const STEP_MIN_MS: i64 = 1_000;

/// A clock that went back further than this makes what is known unusable.
const BACK_MS: i64 = 120_000;

/// How often series that ended are looked for.
const SWEEP_MS: i64 = 60_000;

/// What a pipeline is told once.
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

/// Whether the window has to be filled again from history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The grid changed: ask again, [`Pipeline::range`] says how far back.
    pub refill: bool,
    /// Sentences for the log.
    pub notices: Vec<String>,
}

/// How much of the past is known of a signal.
#[derive(Clone, Copy, Debug, Default)]
struct Coverage {
    /// Until when its samples are known; `None`: the window is empty.
    until: Option<Timestamp>,
    /// Whether they were known before the windows were emptied.
    lost: bool,
    /// How often in a row the whole window was refused.
    refusals: u32,
}

/// Batches in, snapshots out.
#[derive(Debug)]
pub struct Pipeline {
    policy: Arc<Policy>,
    metrics: Arc<[MetricSpec]>,
    overrides: Overrides,
    intake: Intake,
    store: Store,
    /// The signals polled.
    signals: Vec<SignalId>,
    /// How far each signal's samples are known, by signal number.
    coverage: Vec<Coverage>,
    /// When the windows were last emptied, to be filled again.
    emptied: Timestamp,
    /// Whether the windows have been full once.
    filled_once: bool,
    layout: Arc<Layout>,
    layout_of: Option<(u64, Arc<Inventory>)>,
    swept: Timestamp,
    latest: Timestamp,
    retain_ms: i64,
}

impl Pipeline {
    /// An empty pipeline.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let policy = settings.policy;
        let retain_ms = retention_ms(&policy, ASSUMED);
        let signals = settings
            .signals
            .iter()
            .map(|spec| spec.id.index() + 1)
            .max()
            .unwrap_or(0);
        let overrides = Overrides {
            scrape_interval: policy.scrape_interval,
            exporter_interval: policy.exporter_interval,
        };
        let mut store = Store::new(StoreSettings {
            retain_ms,
            fresh_ms: policy.freshness.map(millis),
            percent_as_ratio: policy.percent_as_ratio,
            signals,
            overrides,
        });
        let set_step = policy.step.map(millis).filter(|step| *step > 0);
        store.regrid(set_step.unwrap_or(overrides.apply(ASSUMED).step_ms()));
        let needed = needed_of_whole_gpus(&policy, &settings.metrics);
        Self {
            overrides,
            policy: Arc::new(policy),
            metrics: settings.metrics.into(),
            signals: settings.signals.iter().map(|spec| spec.id).collect(),
            intake: Intake::new(settings.signals, settings.exporter, needed),
            store,
            coverage: vec![Coverage::default(); signals],
            emptied: Timestamp::MIN,
            filled_once: false,
            layout: Arc::default(),
            layout_of: None,
            swept: Timestamp::MIN,
            latest: Timestamp::MIN,
            retain_ms,
        }
    }

    /// How far back from `now` the next query of a signal must reach: the whole
    /// retained window at first, then what is new and what may still come late.
    /// A window that Prometheus refused to give is asked for in half.
    #[must_use]
    pub fn range(&self, signal: SignalId, now: Timestamp) -> Duration {
        let fresh_ms = self.longest_fresh_ms();
        let all = self.retain_ms + fresh_ms;
        let coverage = self.coverage.get(signal.index());
        let coverage = coverage.copied().unwrap_or_default();
        let wanted = match coverage.until {
            Some(until) => (now.millis() - until.millis()).max(0) + fresh_ms,
            None => all >> coverage.refusals.min(16),
        };
        // A clock that went back must not shrink the range to nothing.
        Duration::from_millis(u64::try_from(wanted.clamp(fresh_ms.min(all), all)).unwrap_or(0))
    }

    fn longest_fresh_ms(&self) -> i64 {
        let live = self.store.jobs().iter().filter(|job| job.series > 0);
        let detected = live.map(|job| job.timing.fresh_ms()).max();
        let set = self.policy.freshness.map(millis);
        set.or(detected)
            .unwrap_or(self.overrides.apply(ASSUMED).fresh_ms())
    }

    /// Takes a batch that answers a query over [`Pipeline::range`] at `now`.
    pub fn take(&mut self, batch: &Batch, now: Timestamp) -> Report {
        if now.millis() + BACK_MS < self.latest.millis() {
            self.start_over(self.store.step_ms(), now);
            self.swept = Timestamp::MIN;
        }
        self.latest = now;
        self.store.advance(now);
        self.store.turn();
        let report = self.intake.take(batch, &mut self.store, now);
        if let Some(coverage) = self.coverage.get_mut(batch.signal.index()) {
            coverage.until = Some(now);
            coverage.refusals = 0;
        }
        report
    }

    /// Notes that Prometheus answered a query over [`Pipeline::range`] with a
    /// refusal: too many samples, too slow.
    pub fn refused(&mut self, signal: SignalId) {
        if let Some(coverage) = self.coverage.get_mut(signal.index())
            && coverage.until.is_none()
        {
            coverage.refusals = coverage.refusals.saturating_add(1);
        }
    }

    /// Judges intervals after signals were answered. A job's own intervals
    /// change what is believed of its samples from now on; windows are filled
    /// again when the grid changes, and while they are first filled.
    pub fn settle(&mut self, now: Timestamp, shown: Shown) -> Settled {
        let mut notices = Vec::new();
        let mut retimed = false;
        for job in 0..self.store.jobs().len() {
            let before = self.store.jobs()[job].timing;
            if self.store.judge(job, now, shown) {
                notices.push(self.describe(job));
                retimed |= self.store.jobs()[job].timing != before;
            }
        }
        let step_ms = self.wanted_step_ms();
        let pausing = self.filled_once && now.millis() - self.emptied.millis() < REFILL_PAUSE_MS;
        let another_grid = step_ms != self.store.step_ms() && !pausing;
        let refill = another_grid || (retimed && !self.filled_once);
        if refill {
            self.retain_ms = retention_ms(&self.policy, self.dominant());
            self.store.retain_for(self.retain_ms);
            self.start_over(step_ms, now);
        }
        if !notices.is_empty() {
            notices.extend(self.describe_window());
        }
        self.filled_once |= self.is_filled();
        Settled { refill, notices }
    }

    /// Drops all readings; the windows are to be filled again from history.
    fn start_over(&mut self, step_ms: i64, now: Timestamp) {
        self.store.regrid(step_ms);
        self.emptied = now;
        for coverage in &mut self.coverage {
            *coverage = Coverage {
                lost: coverage.until.is_some() || coverage.lost,
                ..Coverage::default()
            };
        }
    }

    /// Whether every signal was answered since the windows began to be filled.
    fn is_filled(&self) -> bool {
        let coverage = |id: &SignalId| self.coverage.get(id.index()).copied();
        let mut all = self.signals.iter().filter_map(coverage);
        all.all(|coverage| coverage.until.is_some())
    }

    /// Whether what was published before is better than what is known now:
    /// windows were emptied, and a signal that was known is not there again.
    /// No longer than the old values would be believed anyway.
    #[must_use]
    pub fn is_refilling(&self, now: Timestamp) -> bool {
        let waited = now.millis() - self.emptied.millis();
        let awaited = |coverage: &Coverage| coverage.lost && coverage.until.is_none();
        (0..self.longest_fresh_ms()).contains(&waited) && self.coverage.iter().any(awaited)
    }

    /// The job with most series sets the grid; of equals the quicker.
    fn dominant(&self) -> Timing {
        let known = |job: &&Job| job.series > 0 && job.is_settled();
        let jobs = self.store.jobs().iter().filter(known);
        let largest =
            jobs.max_by_key(|job| (job.series, Reverse((job.timing.step_ms(), &job.name))));
        largest.map_or(self.overrides.apply(ASSUMED), |job| job.timing)
    }

    fn wanted_step_ms(&self) -> i64 {
        let set = self.policy.step.map(millis).filter(|step| *step > 0);
        set.unwrap_or_else(|| self.dominant().step_ms().max(STEP_MIN_MS))
    }

    /// The default window.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_millis(u64::try_from(window_ms(&self.policy, self.dominant())).unwrap_or(0))
    }

    fn describe(&self, index: usize) -> String {
        let Some(job) = self.store.jobs().get(index) else {
            return String::new();
        };
        let timing = job.timing;
        let text = |ms: i64| format_duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        let schemes: Vec<&str> = self
            .store
            .schemes(index)
            .into_iter()
            .map(Scheme::describe)
            .collect();
        let owners = if schemes.is_empty() {
            "no series names a pod".to_owned()
        } else {
            format!("owners are read from {}", schemes.join(", "))
        };
        let unit = if job.percent_as_ratio {
            "0 to 1"
        } else {
            "0 to 100"
        };
        format!(
            "job {:?}: {} series, scraped every {}, readings renewed every {}, believed for {}; \
             percent fields run from {unit}; {owners}",
            job.name,
            job.series,
            text(timing.scrape_ms),
            text(timing.exporter_ms),
            text(timing.fresh_ms()),
        )
    }

    fn describe_window(&self) -> Option<String> {
        let dominant = self.dominant();
        let floor = dominant.window_floor_ms();
        let window = window_ms(&self.policy, dominant);
        (window < floor).then(|| {
            let text =
                |ms: i64| format_duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
            format!(
                "the window of {} set by gpu.window holds fewer than four readings of this data: \
                 values will be noisy; {} or more is advised",
                text(window),
                text(floor)
            )
        })
    }

    /// The readings (for explanations and tests).
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Computes what is to be served from `now` on.
    pub fn publish(&mut self, inventory: &Arc<Inventory>, now: Timestamp) -> Snapshot {
        self.store.advance(now);
        if now.millis() - self.swept.millis() >= SWEEP_MS {
            self.swept = now;
            let gone = self.store.sweep(now);
            self.intake.sweep(&gone);
        }
        let generation = self.store.generation();
        let current = self
            .layout_of
            .as_ref()
            .is_some_and(|(of, known)| *of == generation && Arc::ptr_eq(known, inventory));
        if !current {
            let settings = LayoutSettings {
                mig_weight: self.policy.mig_weight,
            };
            self.layout = Arc::new(Layout::build(
                self.store.rows(),
                Arc::clone(inventory),
                settings,
            ));
            self.layout_of = Some((generation, Arc::clone(inventory)));
        }
        Snapshot::compute(
            self.store.frame(now),
            Arc::clone(&self.layout),
            Arc::clone(&self.policy),
            Arc::clone(&self.metrics),
            self.window(),
        )
    }
}

/// The window in force: as set, else a minute or four readings.
fn window_ms(policy: &Policy, dominant: Timing) -> i64 {
    let set = policy.window.map(millis);
    set.unwrap_or_else(|| DEFAULT_WINDOW_MS.max(dominant.window_floor_ms()))
}

fn retention_ms(policy: &Policy, dominant: Timing) -> i64 {
    let longest = millis(policy.max_window).max(window_ms(policy, dominant));
    longest + millis(policy.hold) + dominant.step_ms()
}

/// Profiling signals that predicates or metrics want of whole GPUs too.
fn needed_of_whole_gpus(policy: &Policy, metrics: &[MetricSpec]) -> HashSet<SignalId> {
    let conditions = match &policy.activity {
        Activity::OwnValueAboveZero => &[][..],
        Activity::Any(conditions) | Activity::All(conditions) => conditions,
    };
    let of_conditions = conditions.iter().filter_map(|condition| match condition {
        Condition::Above(DeviceValue::Signal(id), _) => Some(*id),
        Condition::Above(..) | Condition::Allocated => None,
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

#[cfg(test)]
mod tests;
