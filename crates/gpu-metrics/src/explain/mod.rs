//! How a value came to be, for people: the window instant by instant, each
//! device, what was left out and why, and the PromQL that gives the same.
//!
//! Pure data: the server writes it as JSON, the command line, the same binary,
//! reads that and prints it. Formulas: docs/numbers.md.

mod device;
mod of_group;
mod promql;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use of_group::{Question, fields_of, meaning};
pub use promql::{LabelMatcher, Selected};

/// The note about devices without the names of their holders.
pub const HOLDERS_UNNAMED: &str = "pods that hold GPUs are named to users with the right to list pods in all namespaces: kubectl auth \
                                   can-i list pods -A";

/// How one value came to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The metric.
    pub metric: String,
    /// What it is of: `pods ml/train-0`, `namespace ml`, `the cluster`.
    pub of: String,
    /// What the number means, in a sentence.
    pub meaning: String,
    /// The value, if there is one.
    pub value: Option<Served>,
    /// Why there is none.
    pub no_value: Option<String>,
    /// The window it is taken over; `None` where no window is known.
    pub window: Option<Window>,
    /// The instants of the window, in the order of time.
    #[serde(default)]
    pub instants: Vec<Instant>,
    /// How many devices it has.
    #[serde(default)]
    pub device_count: usize,
    /// Those that may be listed, in the order of their UUIDs.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// What was left out or is only counted, and why: a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The query to Prometheus that gives the same number.
    pub promql: Option<Promql>,
}

impl Explanation {
    /// Names the holders of each device to a user with the right to list all pods; says to
    /// others that they are not named.
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
pub struct Served {
    /// The number before it is rounded to a quantity.
    pub number: f64,
    /// The time of the newest sample used.
    pub timestamp: String,
    /// How old that sample is, seconds.
    pub age_seconds: f64,
    /// Until when the value is served; `None`: it is asked anew each time.
    pub served_until: Option<String>,
    /// What the window covers, seconds; 0 where a query says it.
    pub window_seconds: u32,
}

/// The window of a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Its length, seconds.
    pub seconds: f64,
    /// The distance of two instants, seconds.
    pub step_seconds: f64,
    /// Its last instant; it may be some seconds ahead of now.
    pub end: String,
    /// How late the source is, seconds: the largest number of several sources.
    pub lag_seconds: f64,
    /// Instants with a number.
    pub defined: u32,
}

/// An instant of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instant {
    /// Its time.
    pub time: String,
    /// The group's number; `None`: too few devices answered.
    pub number: Option<f64>,
    /// Devices that answered.
    pub answering: u32,
    /// Those of them that the metric is about.
    pub counted: u32,
    /// Devices that should have answered and did not.
    pub missing: u32,
}

/// A device of the group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Its UUID; of a MIG instance that of its GPU.
    pub uuid: String,
    /// The MIG instance: `3g.40gb, id 2`.
    pub instance: Option<String>,
    /// Its model, where the exporter names it.
    pub model: Option<String>,
    /// Its node.
    pub node: Option<String>,
    /// The pods that hold or held it in the window, as far as they may be named:
    /// `ml/train-0`.
    pub pods: Vec<String>,
    /// Other pods that hold it now, counted.
    pub shared_with: usize,
    /// All pods that hold it now; never written, see [`Explanation::name_holders`].
    #[serde(skip)]
    pub holders: BTreeSet<String>,
    /// The field its readings are of.
    pub field: Option<String>,
    /// The labels that name the pod.
    pub owner_labels: Option<String>,
    /// How often it is scraped, seconds.
    pub scrape_seconds: f64,
    /// How long a reading is believed, seconds.
    pub fresh_seconds: f64,
    /// Its first sample that is known.
    pub heard_since: Option<String>,
    /// Its newest sample.
    pub newest: Option<String>,
    /// Since when it is silent.
    pub silent_since: Option<String>,
    /// Since when its exporter's readings stand still.
    pub frozen_since: Option<String>,
    /// Since when it has been held and not in use; of metrics about use alone.
    pub idle: Option<Idle>,
    /// Instant by instant what became of it, in the order of the instants.
    pub readings: Vec<Reading>,
}

/// A device that a pod holds and does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Idle {
    /// The time of the first sample that says so.
    pub since: String,
    /// Whether it may have been so before, of which no readings are held.
    pub or_longer: bool,
}

/// What became of a device at an instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    /// The number it showed, if it did.
    pub number: Option<f64>,
    /// The time of its sample.
    pub sampled: Option<String>,
    /// Whether a pod held the device then.
    pub held: Option<bool>,
    /// What became of it.
    pub state: State,
}

/// What became of a device's reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It entered the number.
    Counted,
    /// The device was idle, and the metric is about active ones.
    Idle,
    /// The device was active, and the metric is about idle ones.
    Active,
    /// No pod held the device, and the metric is about held ones.
    NotHeld,
    /// What decides whether it is active was not answered.
    ActivityUnknown,
    /// The reading is from before the object was there.
    BeforeItsTime,
    /// The reading is from after the pod that it names had ended.
    AfterItsTime,
    /// It should have answered and did not.
    Missing,
    /// Its exporter answers for others without it.
    Lost,
    /// It had no reading, and none was expected.
    NoReading,
}

/// A query to Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promql {
    /// The query.
    pub query: String,
    /// The time to ask it at, seconds since the epoch.
    pub time: String,
    /// What it does not say.
    pub leaves_out: Option<String>,
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
