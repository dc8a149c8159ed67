//! Counters of requests. Their labels come from closed sets (docs/metrics.md, "Metrics of
//! the server itself"), so invented paths create no series.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::catalog;
use super::{Book, histogram};

/// Answers from memory take 0.1 ms; the longest time limit is 10 s.
const BUCKETS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];

/// Most kinds of requests, more than a server has unless its configuration was reloaded
/// often.
const MAX_CLASSES: usize = 2_000;

/// The class of a request. The caller makes sure that the values are from closed
/// sets, not text that came with the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// `get`, `list`, `watch`; another method in lower case.
    pub verb: &'static str,
    /// The API group; empty for other paths.
    pub group: &'static str,
    /// A resource that is served, or the purpose of the path: `discovery`, `openapi`,
    /// `health`, `metrics`, `version`, `other`.
    pub resource: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnsweredRequests {
    verb: &'static str,
    group: &'static str,
    resource: Arc<str>,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Timed {
    group: &'static str,
    resource: Arc<str>,
}

/// The counters of requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Requests {
    answered: Family<AnsweredRequests, Counter>,
    classes: Arc<AtomicUsize>,
    seconds: Family<Timed, Histogram>,
    in_flight: Gauge,
    aborted: Counter,
}

/// A request under way. Dropped without an answer, it counts as aborted.
#[derive(Debug)]
pub struct UnderWay {
    requests: Requests,
    answered: bool,
}

impl Requests {
    pub(super) fn register(book: &mut Book) -> Self {
        let requests = Self {
            answered: Family::default(),
            classes: Arc::default(),
            seconds: Family::new_with_constructor(|| histogram(&BUCKETS)),
            in_flight: Gauge::default(),
            aborted: Counter::default(),
        };
        book.add(&catalog::REQUESTS, requests.answered.clone());
        book.add(&catalog::REQUEST_SECONDS, requests.seconds.clone());
        book.add(&catalog::IN_FLIGHT, requests.in_flight.clone());
        book.add(&catalog::ABORTED, requests.aborted.clone());
        requests
    }

    /// Records the start of a request.
    #[must_use]
    pub(crate) fn begin(&self) -> UnderWay {
        self.in_flight.inc();
        UnderWay {
            requests: self.clone(),
            answered: false,
        }
    }
}

impl UnderWay {
    /// Records the answer with `code` after `took`.
    pub(crate) fn answered(mut self, class: &Class, code: u16, took: Duration) {
        self.answered = true;
        let mut labels = AnsweredRequests {
            verb: class.verb,
            group: class.group,
            resource: Arc::clone(&class.resource),
            code,
        };
        let counters = &self.requests.answered;
        let is_new = counters.get(&labels).is_none();
        if is_new && self.requests.classes.fetch_add(1, Ordering::Relaxed) >= MAX_CLASSES {
            labels.resource = "other".into();
        }
        counters.get_or_create(&labels).inc();
        let timed = Timed {
            group: labels.group,
            resource: labels.resource,
        };
        let seconds = self.requests.seconds.get_or_create(&timed);
        seconds.observe(took.as_secs_f64());
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.requests.in_flight.dec();
        if !self.answered {
            self.requests.aborted.inc();
        }
    }
}
