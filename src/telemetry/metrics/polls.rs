//! Counters of the way from the metrics backend to the values in force.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::catalog;
use super::{Book, histogram};

/// A query: 2 ms to 30 s, the default time limit and beyond.
const QUERY_BUCKETS: [f64; 13] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Computing the values: 0.1 ms to 5 s.
const SNAPSHOT_BUCKETS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

type FloatGauge = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfSignal {
    signal: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    signal: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Dropped {
    signal: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

/// What the poll loop counts. Cheap to clone.
///
/// `signal` is always a configured signal's name, never text that came from a
/// backend.
#[derive(Clone, Debug)]
pub struct Polls {
    queries: Family<Outcome, Counter>,
    seconds: Family<OfSignal, Histogram>,
    last_success: Family<OfSignal, FloatGauge>,
    samples: Family<OfSignal, Counter>,
    samples_dropped: Family<Dropped, Counter>,
    series_dropped: Family<Dropped, Counter>,
    series: FloatGauge,
    devices: Family<OfState, FloatGauge>,
    targets: Family<OfState, FloatGauge>,
    clusters: FloatGauge,
    snapshot_time: FloatGauge,
    snapshot_seconds: Histogram,
}

/// What became of the samples and series of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// New and valid samples.
    pub accepted: u64,
    /// Samples that are no reading.
    pub invalid: u64,
    /// Samples older than anything retained.
    pub too_old: u64,
    /// Samples from the future.
    pub future: u64,
    /// Series that name no device.
    pub unidentified: u64,
    /// Series turned away because there are too many.
    pub refused: u64,
}

/// What is in force after a round of polls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InForce {
    /// When it was computed, seconds since the epoch.
    pub at: f64,
    /// How long that took.
    pub took: Duration,
    /// Series in memory.
    pub series: usize,
    /// Devices held by a live pod.
    pub held: usize,
    /// Devices that nobody holds.
    pub unheld: usize,
    /// Devices whose pod runs on another node than their series say.
    pub conflict: usize,
    /// Scrape targets that are heard.
    pub heard: usize,
    /// Scrape targets that have fallen silent.
    pub silent: usize,
    /// Scrape targets whose readings stand still.
    pub frozen: usize,
    /// Names of clusters in the store, where they are several; else 0.
    pub clusters: usize,
    /// Of the held ones the active, mean over the window, where it is known.
    pub active: Option<f64>,
    /// Of the held ones the idle, mean over the window, where it is known.
    pub idle: Option<f64>,
}

impl Polls {
    pub(super) fn register(book: &mut Book) -> Self {
        let polls = Self {
            queries: Family::default(),
            seconds: Family::new_with_constructor(|| histogram(&QUERY_BUCKETS)),
            last_success: Family::default(),
            samples: Family::default(),
            samples_dropped: Family::default(),
            series_dropped: Family::default(),
            series: Gauge::default(),
            devices: Family::default(),
            targets: Family::default(),
            clusters: Gauge::default(),
            snapshot_time: Gauge::default(),
            snapshot_seconds: histogram(&SNAPSHOT_BUCKETS),
        };
        book.add(&catalog::QUERIES, polls.queries.clone());
        book.add(&catalog::QUERY_SECONDS, polls.seconds.clone());
        book.add(&catalog::LAST_SUCCESS, polls.last_success.clone());
        book.add(&catalog::SAMPLES, polls.samples.clone());
        book.add(&catalog::SAMPLES_DROPPED, polls.samples_dropped.clone());
        book.add(&catalog::SERIES_DROPPED, polls.series_dropped.clone());
        book.add(&catalog::SERIES, polls.series.clone());
        book.add(&catalog::DEVICES, polls.devices.clone());
        book.add(&catalog::TARGETS, polls.targets.clone());
        book.add(&catalog::CLUSTERS, polls.clusters.clone());
        book.add(&catalog::SNAPSHOT_TIME, polls.snapshot_time.clone());
        book.add(&catalog::SNAPSHOT_SECONDS, polls.snapshot_seconds.clone());
        polls
    }

    /// A query of `signal` was answered at `at`, seconds since the epoch.
    pub fn answered(&self, signal: &str, took: Duration, at: f64, intake: Intake) {
        self.ended(signal, "success", took);
        let of_signal = OfSignal {
            signal: signal.to_owned(),
        };
        self.last_success.get_or_create(&of_signal).set(at);
        let samples = self.samples.get_or_create(&of_signal);
        samples.inc_by(intake.accepted);
        let count = |family: &Family<Dropped, Counter>, reason, count| {
            let signal = signal.to_owned();
            let dropped = Dropped { signal, reason };
            family.get_or_create(&dropped).inc_by(count);
        };
        count(&self.samples_dropped, "invalid", intake.invalid);
        count(&self.samples_dropped, "too_old", intake.too_old);
        count(&self.samples_dropped, "future", intake.future);
        count(&self.series_dropped, "unidentified", intake.unidentified);
        count(&self.series_dropped, "too_many", intake.refused);
    }

    /// A query of `signal` failed; `kind` is one of a closed list.
    pub fn failed(&self, signal: &str, kind: &'static str, took: Duration) {
        self.ended(signal, kind, took);
    }

    fn ended(&self, signal: &str, outcome: &'static str, took: Duration) {
        let signal = signal.to_owned();
        let of_signal = OfSignal {
            signal: signal.clone(),
        };
        self.queries
            .get_or_create(&Outcome { signal, outcome })
            .inc();
        let seconds = self.seconds.get_or_create(&of_signal);
        seconds.observe(took.as_secs_f64());
    }

    /// New values are in force.
    pub fn published(&self, in_force: &InForce) {
        self.snapshot_time.set(in_force.at);
        self.snapshot_seconds.observe(in_force.took.as_secs_f64());
        self.series.set(in_force.series as f64);
        self.clusters.set(in_force.clusters as f64);
        let targets = [
            ("heard", in_force.heard),
            ("silent", in_force.silent),
            ("frozen", in_force.frozen),
        ];
        for (state, count) in targets {
            let state = OfState { state };
            self.targets.get_or_create(&state).set(count as f64);
        }
        let states = [
            ("held", Some(in_force.held as f64)),
            ("unheld", Some(in_force.unheld as f64)),
            ("conflict", Some(in_force.conflict as f64)),
            ("active", in_force.active),
            ("idle", in_force.idle),
        ];
        for (state, count) in states {
            let state = OfState { state };
            match count {
                Some(count) => {
                    self.devices.get_or_create(&state).set(count);
                }
                // Not known is not zero.
                None => {
                    self.devices.remove(&state);
                }
            }
        }
    }
}
