//! Counters of requests. Their labels come from closed sets (docs/metrics.md, "Metrics of
//! the server itself"), so invented paths create no series.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Metrics, catalog};

/// Answers from memory take 0.1 ms; the longest time limit is 10 s.
const BUCKETS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];

/// The class of a request. The caller makes sure that the values are from closed
/// sets, not text that came with the request.
#[derive(Clone, Copy, Debug)]
pub struct Class<'c> {
    /// `get`, `list`, `watch`; another method in lower case.
    pub verb: &'static str,
    /// The API group; empty for other paths.
    pub group: &'static str,
    /// A resource that is served, or the purpose of the path: `discovery`, `openapi`,
    /// `health`, `metrics`, `version`, `other`.
    pub resource: &'c str,
}

/// A request under way. Dropped without an answer, it counts as aborted.
#[derive(Debug)]
pub struct UnderWay {
    metrics: Metrics,
    answered: bool,
}

impl UnderWay {
    pub(super) fn new(metrics: Metrics) -> Self {
        metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            metrics,
            answered: false,
        }
    }

    /// Records the answer with `code` after `took`.
    pub(crate) fn answered(mut self, class: Class<'_>, code: u16, took: Duration) {
        self.answered = true;
        let Class {
            verb,
            group,
            resource,
        } = class;
        let families = &self.metrics.families;
        let values = [verb, group, resource, &code.to_string()];
        families.count(&catalog::REQUESTS, &values, 1);
        families.observe(
            &catalog::REQUEST_SECONDS,
            &[group, resource],
            &BUCKETS,
            took,
        );
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.answered {
            self.metrics.families.count(&catalog::ABORTED, &[], 1);
        }
    }
}
