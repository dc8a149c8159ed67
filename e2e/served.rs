//! The values that a server under test serves, and its other answers.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::asking::{ApiClient, Reply};

/// A server's answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// 200 with this body.
    Body(String),
    /// 404 with this message of its Status.
    NotFound(String),
    /// Anything else: no connection, other codes.
    Other(String),
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

impl ApiClient {
    /// The answer at a path.
    pub(crate) fn answer(&self, path: &str) -> Answer {
        let Reply { code, body } = self.wait(path);
        let status: Value = serde_json::from_str(&body).unwrap_or_default();
        match (code, status["message"].as_str()) {
            (200, _) => Answer::Body(body),
            (404, Some(message)) => Answer::NotFound(message.to_owned()),
            _ => Answer::Other(body),
        }
    }

    /// The values at a path, sorted by name; the error has the other answer.
    pub(crate) fn values(&self, path: &str) -> Result<Vec<Served>, Answer> {
        match self.answer(path) {
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
