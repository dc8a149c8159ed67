//! Counters of the polls, from the metrics backend to the values in force.

use std::time::Duration;

use super::Metrics;
use super::catalog::{self, Spec};

/// For a query: 2 ms to 30 s, the default time limit and beyond.
const QUERY_BUCKETS: [f64; 13] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// For computing the values: 0.1 ms to 5 s.
pub(super) const SNAPSHOT_BUCKETS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// The counters of the poll loop. Cheap to clone.
///
/// `signal` is always a configured signal's name, never text from a backend.
#[derive(Clone, Debug)]
pub struct Polls(pub(super) Metrics);

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
    /// Records that a query of `signal` was answered at `at`, in seconds since the epoch.
    pub(crate) fn answered(&self, signal: &str, took: Duration, at: f64, intake: IntakeCounts) {
        self.ended(signal, "success", took);
        self.0.show(&catalog::LAST_SUCCESS, &[signal], Some(at));
        let families = &self.0.families;
        families.count(&catalog::SAMPLES, &[signal], intake.accepted);
        for (reason, count) in intake.samples_dropped {
            families.count(&catalog::SAMPLES_DROPPED, &[signal, reason], count);
        }
        for (reason, count) in intake.series_dropped {
            families.count(&catalog::SERIES_DROPPED, &[signal, reason], count);
        }
    }

    /// Records that `signal` is not queried at present, so the time of its last answer is
    /// not shown.
    pub(crate) fn rests(&self, signal: &str) {
        self.0.show(&catalog::LAST_SUCCESS, &[signal], None);
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
            self.0.families.clear(spec);
        }
    }

    /// Records the end of a query of `signal`, with `success` or a kind of failure of a
    /// closed list.
    pub(crate) fn ended(&self, signal: &str, outcome: &'static str, took: Duration) {
        let families = &self.0.families;
        families.count(&catalog::QUERIES, &[signal, outcome], 1);
        families.observe(&catalog::QUERY_SECONDS, &[signal], &QUERY_BUCKETS, took);
    }

    /// Records that new values are in force, and how long computing them took.
    pub(crate) fn published(&self, took: Duration, figures: &[Figure]) {
        let families = &self.0.families;
        families.observe(&catalog::SNAPSHOT_SECONDS, &[], &SNAPSHOT_BUCKETS, took);
        for (spec, values, number) in figures {
            self.0.show(spec, values, *number);
        }
    }
}
