//! What GPUs do: in lists, by the objects that hold or have them (docs/protocol.md,
//! "Devices"), and in explanations.
//!
//! Pure data: the server writes it as JSON, and the commands read it. What is unknown is
//! `null` or absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::explain::Window;

/// The devices of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceList {
    /// The number of devices of the cluster, also of no item; absent for one namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_count: Option<usize>,
    /// The objects, by namespace, kind and name.
    pub items: Vec<DevicesOf>,
}

/// An object that holds, has or requests devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DevicesOf {
    pub namespace: Option<String>,
    /// Its kind: `deployments.apps`.
    pub resource: String,
    pub name: String,
    /// The workloads of a pod: `deployments.apps/train`.
    pub workloads: Vec<String>,
    /// Whether the pod runs; `None` for other kinds.
    pub running: Option<bool>,
    /// Its known values by metric: means over the window.
    pub values: BTreeMap<String, f64>,
    /// Seconds since the newest sample of a value.
    pub age_seconds: Option<f64>,
    /// Its memory utilisation at each instant of the window.
    pub instants: Vec<Option<f64>>,
    /// How long all held GPUs have been idle.
    pub idle_since: Option<IdleTime>,
    /// Why there is no memory utilisation.
    pub no_value: Option<String>,
    pub window: Option<Window>,
    /// The number of its devices; `devices` may have fewer, as in an explanation.
    pub device_count: usize,
    pub devices: Vec<DeviceReport>,
}

/// How long held devices have been idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleTime {
    /// 0: one of them is active.
    pub seconds: f64,
    /// Whether the time may be longer, because older readings are no longer stored.
    pub or_longer: bool,
}

/// A GPU or MIG instance of an object: its holders, and what was read from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceReport {
    /// Its UUID; for a MIG instance, the UUID of the GPU.
    pub uuid: String,
    /// The MIG instance: `3g.40gb, id 2`.
    pub instance: Option<String>,
    /// Its model, if the exporter reports it.
    pub model: Option<String>,
    pub node: Option<String>,
    /// The live pods that hold it now, as far as the user may read them: `ml/train-0`.
    pub pods: Vec<String>,
    /// The number of other live pods that hold it now.
    pub shared_with: usize,
    /// The DCGM field of its readings.
    pub field: Option<String>,
    /// The labels that name the pod.
    pub owner_labels: Option<String>,
    /// Its scrape interval.
    pub scrape_seconds: f64,
    /// How long a reading is valid.
    pub fresh_seconds: f64,
    /// The time of its newest sample.
    pub newest: Option<String>,
    /// Why it does not answer: `silent since 2026-01-02T02:14:00Z`.
    pub cause: Option<String>,
    /// How long a pod has held it idle; only for metrics that depend on activity.
    pub idle_since: Option<IdleTime>,
    /// Its reading at each instant of the window; in a list only at the newest one.
    pub readings: Vec<ExplainedReading>,
}

impl DeviceReport {
    /// Its reading at the newest instant.
    #[must_use]
    pub fn now(&self) -> ExplainedReading {
        self.readings.last().copied().unwrap_or_default()
    }
}

/// The reading of a device at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedReading {
    pub number: Option<f64>,
    pub state: DeviceState,
    /// Whether it is part of the object's number.
    pub counted: bool,
}

/// What a device of an object does at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// A pod holds it, and it is active.
    Active,
    Idle,
    /// A pod holds it, and the metric does not depend on activity.
    Held,
    /// No pod holds it.
    Free,
    /// A live pod holds it, and it has no reading.
    Missing,
    /// It has no reading that belongs to the object, and none is expected.
    #[default]
    NoReading,
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_list_without_some_fields_is_accepted() {
        let list = r#"{"items":[{"name":"train-0","devices":[{"uuid":"GPU-1"}]}]}"#;
        let list: super::DeviceList = serde_json::from_str(list).unwrap();
        assert_eq!(list.items[0].devices[0].uuid, "GPU-1");
    }
}
