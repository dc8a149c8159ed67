//! Counters of requests. Their labels come from closed sets (docs/metrics.md, "Metrics of
//! the server itself"), so invented paths create no series.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Metrics, catalog};

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
        let values = [verb, group, resource, &code.to_string()];
        self.metrics.count(&catalog::REQUESTS, &values, 1);
        let values = [group, resource];
        self.metrics
            .observe(&catalog::REQUEST_SECONDS, &values, took);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.answered {
            self.metrics.count(&catalog::ABORTED, &[], 1);
        }
    }
}
