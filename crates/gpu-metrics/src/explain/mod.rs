//! Explains a value: the window instant by instant, each device, what was left out and
//! why, and the PromQL that computes the same.
//!
//! Pure data: the server writes it as JSON, and the command line, which is the same
//! binary, prints it. Formulas: docs/numbers.md.

mod device;
mod of_group;
mod promql;

use apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::dcgm::fields;
use crate::devices::DeviceReport;
use crate::policy::Measure;
use crate::signal::SignalId;

pub use of_group::{fields_of, meaning};

/// The note about devices without the names of their holders.
pub const HOLDERS_UNNAMED: &str = "pods that hold GPUs are named to users with the right to list pods in all namespaces: kubectl auth \
                                   can-i list pods -A";

/// The value to explain.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The metric's name.
    pub metric: &'a str,
    pub measure: &'a Measure,
    /// `pods ml/train-0`.
    pub of: &'a str,
    /// How the group's series are selected. This also decides which pods may be named.
    pub selected: Selected<'a>,
    /// Whether labels of the metric selector narrow the group's devices.
    pub is_narrowed: bool,
    /// The time of the request, by the source's clock.
    pub now: Timestamp,
}

/// How the series of a group are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected<'a> {
    /// One pod of a namespace.
    Pod(&'a str, &'a str),
    /// The group's pods in a namespace.
    PodsOf(&'a str),
    /// All pods of a namespace.
    Namespace(&'a str),
    /// The group's devices.
    Devices,
    /// All series.
    All,
}

impl<'a> Selected<'a> {
    /// The namespace of the request: pods of other namespaces are never named.
    const fn namespace(self) -> Option<&'a str> {
        match self {
            Self::Pod(namespace, _) | Self::PodsOf(namespace) | Self::Namespace(namespace) => {
                Some(namespace)
            }
            Self::Devices | Self::All => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub metric: String,
    /// Its object: `pods ml/train-0`, `namespace ml`, `the cluster`.
    pub of: String,
    /// The meaning of the number, in a sentence.
    pub meaning: String,
    pub value: Option<ExplainedValue>,
    /// Why there is no value.
    pub no_value: Option<String>,
    /// Its window; `None` where no window is known.
    pub window: Option<Window>,
    /// The instants of the window, in the order of time.
    #[serde(default)]
    pub instants: Vec<Instant>,
    #[serde(default)]
    pub device_count: usize,
    /// The devices that may be listed, in the order of their nodes and UUIDs.
    #[serde(default)]
    pub devices: Vec<DeviceReport>,
    /// What was left out or is only counted, and why: one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The query to Prometheus that computes the same number.
    pub promql: Option<Promql>,
}

impl Explanation {
    /// Names the holders of each device for a user who may list all pods; for others it
    /// adds a note that they are not named.
    pub fn name_holders(&mut self, may_list_pods: bool) {
        if may_list_pods {
            for device in &mut self.devices {
                device.holders.extend(std::mem::take(&mut device.pods));
                device.pods = std::mem::take(&mut device.holders).into_iter().collect();
                device.shared_with = 0;
            }
        } else if self.devices.iter().any(|device| device.shared_with > 0) {
            self.notes.push(HOLDERS_UNNAMED.to_owned());
        }
    }
}

/// A value as it is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedValue {
    /// The number before it is rounded to a quantity.
    pub number: f64,
    /// The time of the newest sample used.
    pub timestamp: String,
    /// How old that sample is, seconds.
    pub age_seconds: f64,
    /// Until when the value is served; `None`: it is queried for each request.
    pub served_until: Option<String>,
    /// The length of the window, seconds; 0 where a query determines it.
    pub window_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Its length, seconds.
    pub seconds: f64,
    /// The time between instants, seconds.
    pub step_seconds: f64,
    /// Its last instant; it may be some seconds ahead of now.
    pub end: String,
    /// How late the source is, seconds: the largest number of several sources.
    pub lag_seconds: f64,
    /// Instants with a number.
    pub defined: u32,
}

/// The reading of a device at an instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedReading {
    pub number: Option<f64>,
    /// The time of its sample.
    pub sampled: Option<String>,
    /// Whether a pod held the device at that time.
    pub held: Option<bool>,
    pub state: ReadingOutcome,
}

/// The outcome of a device's reading at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadingOutcome {
    /// It is part of the object's number.
    Counted,
    /// The device was idle, and the metric covers active ones.
    Idle,
    /// The device was active, and the metric covers idle ones.
    Active,
    /// No pod held the device, and the metric covers held ones.
    NotHeld,
    /// The reading that decides whether it is active is missing.
    ActivityUnknown,
    /// The reading is from before the object existed, or no pod of the object held the device.
    Outside,
    /// It was expected to answer and did not.
    Missing,
    /// It had no reading, and none was expected.
    NoReading,
}

/// An instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instant {
    /// Its time, in RFC 3339.
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

/// A device that a pod holds and does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleSince {
    /// The time of the first sample that shows it, in RFC 3339.
    pub since: String,
    /// Whether it may have been idle even earlier: older readings are missing.
    pub or_longer: bool,
}

/// A query to Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promql {
    pub query: String,
    /// The time of the query, seconds since the epoch.
    pub time: String,
    /// What the query leaves out.
    pub leaves_out: Option<String>,
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

/// The first of a field's series names.
fn field(signal: SignalId) -> Option<String> {
    let (.., names) = fields::TABLE.get(signal.index())?;
    names.split(' ').next().map(str::to_owned)
}
