//! From batches to snapshots: intake, store, layout and values in one piece.
//!
//! Pure: batches and times in, snapshots and things worth logging out. The
//! wiring asks [`Pipeline::range`] how far back to query, hands over what came,
//! lets the pipeline judge intervals ([`Pipeline::settle`]) and publishes.

mod reach;
mod settle;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::core::aggregate::window_ms;
use crate::core::batch::Batch;
use crate::core::cadence::GAPS;
use crate::core::frame::Pace;
use crate::core::inventory::Inventory;
use crate::core::layout::{Layout, LayoutSettings};
use crate::core::policy::{Activity, Condition, DeviceValue, Measure, MetricSpec, Policy};
use crate::core::signal::{SignalId, SignalSpec};
use crate::core::snapshot::Snapshot;
use crate::core::store::{Store, StoreSettings};
use crate::core::targets::FROZEN_MS;
use crate::core::time::{Timestamp, millis};
use crate::core::timing::{ASSUMED, Overrides};
use crate::dcgm::intake::{Intake, Report};
use crate::dcgm::schemes::ExporterIdentity;

use reach::Reach;
pub use settle::{Settled, Shown};
use settle::{retention_ms, set_step_ms};

/// A clock that went back further than this makes what is known unusable.
const BACK_MS: i64 = 120_000;

/// How often series that ended are looked for.
const SWEEP_MS: i64 = 60_000;

/// Scrapes further back than this tell nothing of how often targets are scraped
/// now.
const HISTORY_MAX_MS: i64 = 3_600_000;

/// How often it is asked how new targets were scraped.
const ASK_EVERY_MS: i64 = 60_000;

/// A source that does not advance keeps nobody from serving longer than this.
const READY_AFTER_MS: i64 = 60_000;

/// Advances of every source before its lag is known.
const ADVANCES: u8 = 2;

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

/// When it was last asked how targets were scraped before they were known.
#[derive(Clone, Copy, Debug)]
struct History {
    /// How many targets had ever been registered by then.
    targets: u64,
    /// The multiple of [`ASK_EVERY_MS`].
    time: i64,
}

/// Batches in, snapshots out.
#[derive(Debug)]
pub struct Pipeline {
    policy: Arc<Policy>,
    metrics: Arc<[MetricSpec]>,
    overrides: Overrides,
    intake: Intake,
    store: Store,
    reach: Reach,
    pace: Pace,
    /// The multiple of the longest window at which the grid was decided.
    decided: Option<i64>,
    /// The last sentence on the grid.
    told: Option<String>,
    /// `None`: not since the start, or since everything was forgotten.
    history: Option<History>,
    /// When samples were first taken.
    began: Option<Timestamp>,
    /// The end of the last round whose samples moved the horizons.
    advanced: Timestamp,
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
        let signals = settings
            .signals
            .iter()
            .map(|spec| spec.id.index() + 1)
            .max()
            .unwrap_or(0);
        let overrides = Overrides {
            scrape_interval: policy.scrape_interval,
            exporter_interval: policy.exporter_interval,
            freshness: policy.freshness,
        };
        let assumed = overrides.apply(ASSUMED);
        let step_ms = set_step_ms(&policy).unwrap_or(assumed.cadence_ms());
        let retain_ms = retention_ms(&policy, assumed, overrides.fresh_ms(assumed), step_ms);
        let mut store = Store::new(StoreSettings {
            retain_ms,
            percent_as_ratio: policy.percent_as_ratio,
            signals,
            overrides,
        });
        store.regrid(step_ms);
        let needed = needed_of_whole_gpus(&policy, &settings.metrics);
        Self {
            overrides,
            policy: Arc::new(policy),
            metrics: settings.metrics.into(),
            intake: Intake::new(settings.signals, settings.exporter, needed),
            store,
            reach: Reach::new(signals),
            pace: Pace::default(),
            decided: None,
            told: None,
            history: None,
            began: None,
            advanced: Timestamp::MIN,
            layout: Arc::default(),
            layout_of: None,
            swept: Timestamp::MIN,
            latest: Timestamp::MIN,
            retain_ms,
        }
    }

    /// How far back from `now` the next query of a signal must reach: the whole
    /// retained window at first, then what is new and what may still come late.
    /// What Prometheus refused to give is asked for in half.
    #[must_use]
    pub fn range(&self, signal: SignalId, now: Timestamp) -> Duration {
        let fresh_ms = self.store.targets().longest_fresh_ms();
        self.reach.range(signal, now, fresh_ms, self.retain_ms)
    }

    /// Whether a signal is to be asked for: profiling fields only where a device
    /// needs them, and now and then to see whether one does.
    #[must_use]
    pub fn is_wanted(&self, signal: SignalId, now: Timestamp) -> bool {
        let profiling = [SignalId::DRAM_ACTIVE, SignalId::GR_ENGINE_ACTIVE];
        !profiling.contains(&signal)
            || self.store.has_signal(signal)
            || self.intake.needs_of_whole_gpus(signal)
            || self.reach.is_long_ago(signal, now)
    }

    /// Whether MIG instances alone are to be asked for: no whole GPU needs the
    /// signal, as far as a look at all of them now and then has shown.
    #[must_use]
    pub fn is_of_mig_alone(&self, signal: SignalId, now: Timestamp) -> bool {
        let profiling = [SignalId::DRAM_ACTIVE, SignalId::GR_ENGINE_ACTIVE];
        profiling.contains(&signal)
            && self.store.is_of_mig_alone(signal)
            && !self.intake.needs_of_whole_gpus(signal)
            && !self.reach.is_long_ago(signal, now)
    }

    /// Tells how often the source is asked and how long a round took.
    pub fn pace(&mut self, poll: Duration, round: Duration) {
        self.pace = Pace {
            poll_ms: millis(poll),
            round_ms: millis(round),
        };
    }

    /// Takes a batch that answers a query over [`Pipeline::range`] at `now`, or the
    /// last part of that time.
    pub fn take(&mut self, batch: &Batch, now: Timestamp) -> Report {
        let of_all = !self.is_of_mig_alone(batch.signal, now);
        let report = self.take_part(batch, now);
        // Of a signal that was there, nothing is no answer: what comes when it is
        // back begins where it ended.
        let vanished = batch.series_len() == 0 && self.store.has_signal(batch.signal);
        let until = (!vanished).then_some(now);
        self.reach
            .answered(batch.signal, until, of_all.then_some(now));
        report
    }

    /// Takes a batch that answers a query over an earlier part of that time.
    pub fn take_part(&mut self, batch: &Batch, now: Timestamp) -> Report {
        if now.millis() + BACK_MS < self.latest.millis() {
            self.store.clear();
            self.reach.start_over();
            (self.swept, self.advanced) = (Timestamp::MIN, Timestamp::MIN);
            (self.decided, self.began) = (None, None);
        }
        self.latest = now;
        self.began.get_or_insert(now);
        self.store.advance(now);
        if self.store.series_len() == 0 {
            // After an outage in which all was forgotten it is as after a start.
            self.history = None;
        }
        self.intake.take(batch, &mut self.store, now)
    }

    /// Notes that Prometheus answered a query over [`Pipeline::range`] with a
    /// refusal: too large, or else too slow.
    pub fn refused(&mut self, signal: SignalId, is_too_large: bool) {
        self.reach.refused(signal, is_too_large);
    }

    /// How far back a sample of series is to be asked for, so that the last
    /// gaps between scrapes are known of slow targets too, and whether readings
    /// moved. Once after the start and after everything was forgotten, then when
    /// there are new targets: one that was away for longer than samples are kept
    /// is as new here, while another replica may have read what it showed before.
    pub fn history_wanted(&mut self, now: Timestamp) -> Option<Duration> {
        let known = self.store.targets();
        let slowest_ms = known.iter().map(|(.., timing)| timing.scrape_ms).max()?;
        let asked = History {
            targets: known.registered(),
            time: now.millis().div_euclid(ASK_EVERY_MS),
        };
        match self.history.replace(asked) {
            // The grid was decided without.
            None => self.decided = None,
            Some(last) if last.targets < asked.targets && last.time < asked.time => {}
            Some(last) => {
                self.history = Some(last);
                return None;
            }
        }
        let gaps_ms = slowest_ms * (GAPS as i64 + 1);
        let wanted_ms = gaps_ms.clamp(2 * FROZEN_MS, HISTORY_MAX_MS);
        Some(Duration::from_millis(u64::try_from(wanted_ms).ok()?))
    }

    /// Takes the answer: times and movements only, no readings.
    pub fn take_history(&mut self, batch: &Batch, now: Timestamp) {
        self.intake.take_times(batch, &mut self.store, now);
    }

    /// Whether what is served is what any other replica would serve: lags are
    /// known. A source that has nothing, or does not advance, holds nobody up
    /// for long.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let Some(began) = self.began else {
            return self.store.series_len() == 0;
        };
        now.millis() - began.millis() >= READY_AFTER_MS
            || self.store.targets().have_advanced(ADVANCES)
    }

    /// The default window on the grid in force; groups of slower targets have a
    /// longer one.
    #[must_use]
    pub fn window(&self) -> Duration {
        let step_ms = self.store.step_ms();
        let window_ms = window_ms(&self.policy, None, 0, step_ms);
        Duration::from_millis(u64::try_from(window_ms).unwrap_or(0))
    }

    /// The samples (for explanations and tests).
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Computes what is to be served from `now` on.
    pub fn publish(&mut self, inventory: &Arc<Inventory>, now: Timestamp) -> Snapshot {
        // Also where the clock was set back.
        if self.latest != self.advanced {
            self.advanced = self.latest;
            let targets = self.store.targets_mut();
            targets.advance(self.latest, self.pace.poll_ms + self.pace.round_ms);
            self.reach.end_round(targets, self.latest, self.retain_ms);
        }
        self.store.advance(now);
        // At the same times in every replica: what is forgotten is missed otherwise.
        if now.millis().div_euclid(SWEEP_MS) != self.swept.millis().div_euclid(SWEEP_MS) {
            self.swept = now;
            let gone = self.store.sweep(now);
            self.intake.sweep(&gone, &self.store);
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
                |row| self.store.newest(row),
                Arc::clone(inventory),
                settings,
            ));
            self.layout_of = Some((generation, Arc::clone(inventory)));
        }
        let frame = self.store.frame(now, self.pace);
        Snapshot::compute(
            frame.answered(self.reach.are_answered()),
            Arc::clone(&self.layout),
            Arc::clone(&self.policy),
            Arc::clone(&self.metrics),
            self.window(),
        )
    }
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
