//! The list of devices: what the GPUs of a fleet do, by the objects that hold or have them
//! (docs/protocol.md, "Devices").
//!
//! Pure data: the server writes it as JSON, and `top` and the page read it, also from an
//! older server. What is unknown is absent.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::explain::{ExplainedReading, IdleSince, Window};

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

/// An object that holds, has or requests devices. Its values are means over the window, in
/// the units of the metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DevicesOf {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its kind: `deployments.apps`.
    pub resource: String,
    pub name: String,
    /// The workloads of a pod: `deployments.apps/train`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Whether the pod runs; absent for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<bool>,
    /// The held GPUs that are active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<f64>,
    /// Seconds since the newest sample of a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// GPU utilisation in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_utilization: Option<f64>,
    /// The GPUs that pods hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<f64>,
    /// The held GPUs that are not active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<f64>,
    /// Framebuffer memory in use, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<f64>,
    /// Memory bandwidth utilisation in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_utilization: Option<f64>,
    /// The same at the newest instant of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_utilization_now: Option<f64>,
    /// Power in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// The same at each instant of the window; `None`: unknown.
    pub memory_utilization_instants: Vec<Option<f64>>,
    /// How long all held GPUs have been idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<IdleTime>,
    /// Why there is no memory utilisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_value: Option<String>,
    /// The window, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The number of its devices; `devices` may have fewer, as in an explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_count: Option<usize>,
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

/// A GPU or MIG instance of an object: its holders, and what was read from it. An explanation
/// has its readings, and a list of devices what they show at the newest instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceReport {
    /// Its UUID; for a MIG instance, the UUID of the GPU.
    pub uuid: String,
    /// The MIG instance: `3g.40gb, id 2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Its model, if the exporter reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The pods that hold or held it in the window, as far as the user may read them:
    /// `ml/train-0`.
    pub pods: Vec<String>,
    /// The number of other pods that hold it now.
    pub shared_with: usize,
    /// All pods that hold it now; not serialized, see [`Explanation::name_holders`].
    ///
    /// [`Explanation::name_holders`]: crate::explain::Explanation::name_holders
    #[serde(skip)]
    pub holders: BTreeSet<String>,
    /// The DCGM field of its readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The labels that name the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_labels: Option<String>,
    /// Its scrape interval, seconds.
    pub scrape_seconds: f64,
    /// How long a reading is valid, seconds.
    pub fresh_seconds: f64,
    /// The time of its first known sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard_since: Option<String>,
    /// The time of its newest sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<String>,
    /// Since when its readings have not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_since: Option<String>,
    /// Since when it has been held and idle; only for metrics that depend on activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleSince>,
    /// Its reading at each instant, in the order of the instants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<ExplainedReading>,
    /// Its state at the newest instant: `active`, `idle`, `free`, `missing`, `lost`,
    /// `no-reading`, `unknown`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Why its state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether a pod holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_utilization: Option<f64>,
    /// How long it has been idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<IdleTime>,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_of_an_older_server_is_accepted() {
        let older = r#"{"items":[{"name":"train-0","devices":[{"uuid":"GPU-1"}]}]}"#;
        let list: super::DeviceList = serde_json::from_str(older).unwrap();
        assert_eq!(list.items[0].devices[0].uuid, "GPU-1");
    }
}
