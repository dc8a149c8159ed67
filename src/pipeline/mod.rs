//! From batches to snapshots: intake, store, layout and values in one piece.
//!
//! Pure: batches and times in, snapshots and things worth logging out. The
//! wiring asks [`Pipeline::range`] how far back to query, hands over what came,
//! lets the pipeline judge intervals ([`Pipeline::settle`]) and publishes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::core::batch::Batch;
use crate::core::duration::format_duration;
use crate::core::inventory::Inventory;
use crate::core::layout::{Layout, LayoutSettings};
use crate::core::policy::{Activity, Condition, DeviceValue, Measure, MetricSpec, Policy};
use crate::core::series::Scheme;
use crate::core::signal::{SignalId, SignalSpec};
use crate::core::snapshot::Snapshot;
use crate::core::store::{Store, StoreSettings};
use crate::core::time::{Timestamp, millis};
use crate::core::timing::{ASSUMED, Overrides, Timing};
use crate::dcgm::intake::{Intake, Report};
use crate::dcgm::schemes::ExporterIdentity;

/// The default window, unless the data are too sparse for it.
const DEFAULT_WINDOW_MS: i64 = 60_000;

/// A changed interval is believed after this many rounds in a row: a restart
/// of Prometheus or one late scrape must not move the grid.
const DISSENT_NEEDED: u32 = 6;

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

/// What is thought of a job's intervals.
#[derive(Clone, Copy, Debug)]
struct Judgement {
    timing: Timing,
    settled: bool,
    /// Rounds in a row that showed something else.
    dissent: u32,
}

/// Whether the window has to be filled again from history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The grid changed: ask again, [`Pipeline::range`] says how far back.
    pub refill: bool,
    /// Sentences for the log.
    pub notices: Vec<String>,
}

/// Batches in, snapshots out.
#[derive(Debug)]
pub struct Pipeline {
    policy: Arc<Policy>,
    metrics: Arc<[MetricSpec]>,
    overrides: Overrides,
    intake: Intake,
    store: Store,
    judgements: Vec<Judgement>,
    /// The signals polled.
    signals: Vec<SignalId>,
    /// Until when each signal's samples are known, by signal number.
    covered: Vec<Option<Timestamp>>,
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
        });
        let set_step = policy.step.map(millis).filter(|step| *step > 0);
        store.regrid(set_step.unwrap_or(overrides.apply(ASSUMED).step_ms()), &[]);
        let needed = needed_of_whole_gpus(&policy, &settings.metrics);
        Self {
            overrides,
            policy: Arc::new(policy),
            metrics: settings.metrics.into(),
            signals: settings.signals.iter().map(|spec| spec.id).collect(),
            intake: Intake::new(settings.signals, settings.exporter, needed),
            store,
            judgements: Vec::new(),
            covered: vec![None; signals],
            layout: Arc::default(),
            layout_of: None,
            swept: Timestamp::MIN,
            latest: Timestamp::MIN,
            retain_ms,
        }
    }

    /// How far back from `now` the next query of a signal must reach: the whole
    /// retained window at first, then what is new and what may still come late.
    #[must_use]
    pub fn range(&self, signal: SignalId, now: Timestamp) -> Duration {
        let fresh_ms = self.longest_fresh_ms();
        let all = self.retain_ms + fresh_ms;
        let wanted = match self.covered.get(signal.index()).copied().flatten() {
            Some(until) => (now.millis() - until.millis()).max(0) + fresh_ms,
            None => all,
        };
        // A clock that went back must not shrink the range to nothing.
        Duration::from_millis(u64::try_from(wanted.clamp(fresh_ms.min(all), all)).unwrap_or(0))
    }

    fn longest_fresh_ms(&self) -> i64 {
        let detected = self
            .judgements
            .iter()
            .map(|judgement| judgement.timing.fresh_ms())
            .max();
        let set = self.policy.freshness.map(millis);
        set.or(detected).unwrap_or(ASSUMED.fresh_ms())
    }

    /// Takes a batch that answers a query over [`Pipeline::range`] at `now`.
    pub fn take(&mut self, batch: &Batch, now: Timestamp) -> Report {
        if now.millis() + BACK_MS < self.latest.millis() {
            self.start_over(self.store.step_ms());
            self.swept = Timestamp::MIN;
        }
        self.latest = now;
        self.store.advance(now);
        let report = self.intake.take(batch, &mut self.store, now);
        if let Some(covered) = self.covered.get_mut(batch.signal.index()) {
            *covered = Some(now);
        }
        report
    }

    /// Judges intervals after a round of all signals.
    pub fn settle(&mut self, now: Timestamp) -> Settled {
        let mut changed = false;
        let mut notices = Vec::new();
        for job in 0..self.store.jobs().len() {
            if job >= self.judgements.len() {
                self.judgements.push(Judgement {
                    timing: self.overrides.apply(ASSUMED),
                    settled: false,
                    dissent: 0,
                });
            }
            if self.judge(job, now) {
                changed = true;
                notices.push(self.describe(job));
            }
        }
        let step_ms = self.wanted_step_ms();
        let stored: Vec<Timing> = self.store.jobs().iter().map(|job| job.timing).collect();
        let timings: Vec<Timing> = self
            .judgements
            .iter()
            .map(|judgement| judgement.timing)
            .collect();
        let refill = (changed && stored != timings) || step_ms != self.store.step_ms();
        if refill {
            self.retain_ms = retention_ms(&self.policy, self.dominant());
            self.store.retain_for(self.retain_ms);
            self.start_over(step_ms);
        }
        if changed {
            notices.extend(self.describe_window());
        }
        Settled { refill, notices }
    }

    /// Drops all readings; the windows are to be filled again from history.
    fn start_over(&mut self, step_ms: i64) {
        let timings: Vec<Timing> = self
            .judgements
            .iter()
            .map(|judgement| judgement.timing)
            .collect();
        self.store.regrid(step_ms, &timings);
        self.covered.fill(None);
    }

    /// Whether every signal was answered since the windows began to be filled.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.signals
            .iter()
            .all(|id| self.covered.get(id.index()).copied().flatten().is_some())
    }

    /// Whether a job's intervals turned out different from what was thought
    /// (or became known at all).
    fn judge(&mut self, job: usize, now: Timestamp) -> bool {
        let seen_scrape = self.intake.scrape_ms(job);
        let seen_exporter = self.store.exporter_ms(job, now);
        let judgement = &mut self.judgements[job];
        let current = judgement.timing;
        let scrape_ms = seen_scrape.unwrap_or(current.scrape_ms);
        let known = if judgement.settled {
            current.exporter_ms
        } else {
            scrape_ms
        };
        let exporter_ms = seen_exporter.unwrap_or(known).max(scrape_ms);
        let seen = self.overrides.apply(Timing {
            scrape_ms,
            exporter_ms,
        });
        if !judgement.settled {
            judgement.settled = seen_scrape.is_some() || self.overrides.scrape_interval.is_some();
            let news = judgement.settled || seen != current;
            judgement.timing = seen;
            return news;
        }
        if seen == current {
            judgement.dissent = 0;
            return false;
        }
        judgement.dissent += 1;
        if judgement.dissent < DISSENT_NEEDED {
            return false;
        }
        judgement.dissent = 0;
        judgement.timing = seen;
        true
    }

    /// The job with most series sets the grid; of equals the quicker.
    fn dominant(&self) -> Timing {
        let jobs = self.store.jobs().iter().zip(&self.judgements);
        let largest = jobs.max_by_key(|(job, judgement)| {
            (
                job.series,
                -judgement.timing.step_ms(),
                std::cmp::Reverse(Arc::clone(&job.name)),
            )
        });
        largest.map_or(self.overrides.apply(ASSUMED), |(_, judgement)| {
            judgement.timing
        })
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
        let timing = self.judgements[index].timing;
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
                exporters: self.intake.exporters(),
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
