//! Explains a value: the window instant by instant, each device, what was left out, and the
//! PromQL that computes the same.
//!
//! Pure data: the server writes it as JSON, and the commands print it. Formulas:
//! docs/numbers.md.

mod of_object;
mod promql;

use std::time::Duration;

use apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::devices::DeviceReport;
use crate::layout::Object;
use crate::metric::Value;
use crate::policy::Measure;

/// The note about devices without the names of their holders.
pub const HOLDERS_UNNAMED: &str = "pods that hold GPUs are named to users with the right to list pods in all namespaces: kubectl auth \
                                   can-i list pods -A";

/// The value to explain.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub object: &'a Object,
    pub measure: &'a Measure,
    /// The length of the window; `None`: the default.
    pub window: Option<Duration>,
    /// Whether labels of the metric selector narrow the object's devices.
    pub is_narrowed: bool,
    /// Whether all pods that hold devices may be named; otherwise only those of the object.
    pub names_pods: bool,
    /// The time of the request, by the source's clock.
    pub now: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    pub metric: String,
    /// Its object: `pods ml/train-0`, `namespace ml`, `the cluster`.
    pub of: String,
    pub value: Option<ExplainedValue>,
    /// Why there is no value.
    pub no_value: Option<String>,
    /// Its window; `None` where no window is known.
    pub window: Option<Window>,
    /// The instants of the window, in the order of time.
    pub instants: Vec<Instant>,
    pub device_count: usize,
    /// The devices that may be listed, in the order of their nodes and UUIDs.
    pub devices: Vec<DeviceReport>,
    /// What was left out or is only counted, and why: one sentence each.
    pub notes: Vec<String>,
    /// The query to Prometheus that computes the same number.
    pub promql: Option<Promql>,
}

/// A value as it is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedValue {
    /// The number before it is rounded to a quantity.
    pub number: f64,
    /// The time of the newest sample used.
    pub timestamp: String,
    /// How old that sample is.
    pub age_seconds: f64,
    /// Until when the value is served; `None`: it is queried for each request.
    pub served_until: Option<String>,
}

impl ExplainedValue {
    /// A value as it is served at `now`.
    #[must_use]
    pub fn of(value: &Value, now: Timestamp) -> Self {
        let until = Some(value.fresh_until).filter(|until| *until < Timestamp::MAX);
        Self {
            number: value.value,
            timestamp: value.at.date(),
            age_seconds: seconds(now.millis() - value.at.millis()),
            served_until: until.map(Timestamp::date),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Its length.
    pub seconds: f64,
    /// The time between instants.
    pub step_seconds: f64,
    /// Its last instant; it may be some seconds ahead of now.
    pub end: String,
    /// How late the source is: the largest number of several sources.
    pub lag_seconds: f64,
}

/// An instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instant {
    pub time: String,
    /// The object's number; `None`: too few devices answered.
    pub number: Option<f64>,
    /// Devices that answered.
    pub answering: u32,
    /// Answering devices that the metric covers.
    pub counted: u32,
    /// Devices that should have answered and did not, including those that may be shared.
    pub missing: u32,
}

/// A query to Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promql {
    pub query: String,
    /// The time of the query, seconds since the epoch.
    pub time: String,
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
