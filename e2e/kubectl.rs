//! The real kubectl, with requests to the server under test.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::program::output;

/// A kubectl with a kubeconfig.
#[derive(Debug)]
pub(crate) struct Kubectl {
    pub(crate) kubeconfig: PathBuf,
}

/// A server's answer, as kubectl reports it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// 200 with this body.
    Body(String),
    /// 404 with this message of its Status.
    NotFound(String),
    /// Anything else: no connection, other codes.
    Other(String),
}

/// Whether kubectl reports a failed connection, as may happen on a busy machine: a
/// handshake has three seconds.
pub(crate) fn is_lost(said: &str) -> bool {
    said.starts_with("Unable to connect to the server")
}

/// A value of an object or a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Served {
    /// The object, or the external metric.
    pub(crate) name: String,
    /// The quantity, unchanged.
    pub(crate) value: String,
    /// Its window; 0: values of rules have none.
    pub(crate) window: u64,
    /// Time of the newest sample.
    pub(crate) at: jiff::Timestamp,
}

impl Kubectl {
    /// `kubectl get --raw`.
    pub(crate) fn get(&self, path: &str) -> Answer {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        let said = output(command.args(["--request-timeout=30s", "get", "--raw", path]));
        // kubectl prints this code only for a Status that it could parse.
        let not_found = "Error from server (NotFound): ";
        match said {
            Ok(body) => Answer::Body(body),
            Err(said) => match said.strip_prefix(not_found) {
                Some(message) => Answer::NotFound(message.trim().to_owned()),
                None => Answer::Other(said),
            },
        }
    }

    /// The values at a path, sorted by name; the error has the other answer.
    pub(crate) fn values(&self, path: &str) -> Result<Vec<Served>, Answer> {
        match self.get(path) {
            Answer::Body(body) => Ok(read(&body)),
            answer => Err(answer),
        }
    }
}

/// The items of a MetricValueList or ExternalMetricValueList, sorted by name.
pub(crate) fn read(body: &str) -> Vec<Served> {
    let list: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {body}"));
    let items = list["items"].as_array();
    let items = items.unwrap_or_else(|| panic!("no list: {body}"));
    let mut values: Vec<Served> = items
        .iter()
        .map(|item| {
            let named = item["describedObject"]["name"].as_str();
            let name = named.or(item["metricName"].as_str());
            let value = item["value"].as_str();
            let (Some(name), Some(value)) = (name, value) else {
                panic!("no value: {body}")
            };
            // The external group names this field differently.
            let window = item["windowSeconds"].as_u64();
            let window = window.or(item["window"].as_u64());
            Served {
                name: name.to_owned(),
                value: value.to_owned(),
                window: window.unwrap_or_default(),
                at: item["timestamp"].as_str().unwrap().parse().unwrap(),
            }
        })
        .collect();
    values.sort_by(|left, right| left.name.cmp(&right.name));
    values
}

/// The time now, in seconds.
pub(crate) fn unix_seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs_f64()
}

/// A quantity in thousandths.
pub(crate) fn milli(served: &Served) -> u64 {
    let text = served.value.as_str();
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap(),
        None => 1000 * text.parse::<u64>().unwrap(),
    }
}
