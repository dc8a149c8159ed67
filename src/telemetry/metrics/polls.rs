//! Counters of the polls, from the metrics backend to the values in force.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::catalog::{self, Spec};
use super::readings::Readings;
use super::{Book, histogram};

/// For a query: 2 ms to 30 s, the default time limit and beyond.
const QUERY_BUCKETS: [f64; 13] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// For computing the values: 0.1 ms to 5 s.
const SNAPSHOT_BUCKETS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

type Labels<const N: usize> = [(&'static str, String); N];

/// The counters of the poll loop. Cheap to clone.
///
/// `signal` is always a configured signal's name, never text from a backend.
#[derive(Clone, Debug)]
pub struct Polls {
    queries: Family<Labels<2>, Counter>,
    seconds: Family<Labels<1>, Histogram>,
    samples: Family<Labels<1>, Counter>,
    samples_dropped: Family<Labels<2>, Counter>,
    series_dropped: Family<Labels<2>, Counter>,
    snapshot_seconds: Histogram,
    readings: Readings,
}

/// The outcome of an answer's samples and series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeCounts {
    /// New and valid samples.
    pub accepted: u64,
    /// Samples not stored, by reason.
    pub samples_dropped: [(&'static str, u64); 3],
    /// Series not stored, by reason.
    pub series_dropped: [(&'static str, u64); 2],
}

/// A number of the values in force: its family, its label values, and the number where it
/// is known.
pub type Figure = (&'static Spec, &'static [&'static str], Option<f64>);

impl Polls {
    pub(super) fn register(book: &mut Book, readings: Readings) -> Self {
        let polls = Self {
            queries: Family::default(),
            seconds: Family::new_with_constructor(|| histogram(&QUERY_BUCKETS)),
            samples: Family::default(),
            samples_dropped: Family::default(),
            series_dropped: Family::default(),
            snapshot_seconds: histogram(&SNAPSHOT_BUCKETS),
            readings,
        };
        book.add(&catalog::QUERIES, polls.queries.clone());
        book.add(&catalog::QUERY_SECONDS, polls.seconds.clone());
        book.add(&catalog::SAMPLES, polls.samples.clone());
        book.add(&catalog::SAMPLES_DROPPED, polls.samples_dropped.clone());
        book.add(&catalog::SERIES_DROPPED, polls.series_dropped.clone());
        book.add(&catalog::SNAPSHOT_SECONDS, polls.snapshot_seconds.clone());
        polls
    }

    /// Records that a query of `signal` was answered at `at`, in seconds since the epoch.
    pub(crate) fn answered(&self, signal: &str, took: Duration, at: f64, intake: IntakeCounts) {
        self.ended(signal, "success", took);
        self.readings
            .show(&catalog::LAST_SUCCESS, &[signal], Some(at));
        let samples = [("signal", signal.to_owned())];
        let samples = self.samples.get_or_create(&samples);
        samples.inc_by(intake.accepted);
        let count = |family: &Family<Labels<2>, Counter>, reasons: &[(&str, u64)]| {
            for (reason, count) in reasons {
                let labels = [
                    ("signal", signal.to_owned()),
                    ("reason", (*reason).to_owned()),
                ];
                family.get_or_create(&labels).inc_by(*count);
            }
        };
        count(&self.samples_dropped, &intake.samples_dropped);
        count(&self.series_dropped, &intake.series_dropped);
    }

    /// Records that `signal` is not queried at present, so the time of its last answer is
    /// not shown.
    pub(crate) fn rests(&self, signal: &str) {
        self.readings.show(&catalog::LAST_SUCCESS, &[signal], None);
    }

    /// Removes the numbers of the values that are no longer in force.
    pub(crate) fn forget(&self) {
        for spec in [
            &catalog::LAST_SUCCESS,
            &catalog::SERIES,
            &catalog::DEVICES,
            &catalog::TARGETS,
            &catalog::CLUSTERS,
            &catalog::SNAPSHOT_TIME,
            &catalog::FINDINGS,
        ] {
            self.readings.clear(spec);
        }
    }

    /// Records the end of a query of `signal`, with `success` or a kind of failure of a
    /// closed list.
    pub(crate) fn ended(&self, signal: &str, outcome: &'static str, took: Duration) {
        let labels = [
            ("signal", signal.to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        self.queries.get_or_create(&labels).inc();
        let seconds = self.seconds.get_or_create(&[("signal", signal.to_owned())]);
        seconds.observe(took.as_secs_f64());
    }

    /// Records that new values are in force, and how long computing them took.
    pub(crate) fn published(&self, took: Duration, figures: &[Figure]) {
        self.snapshot_seconds.observe(took.as_secs_f64());
        for (spec, values, number) in figures {
            self.readings.show(spec, values, *number);
        }
    }
}
