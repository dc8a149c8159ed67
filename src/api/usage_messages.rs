//! The messages of the resource metrics API, with the field numbers of metrics
//! `pkg/apis/metrics/v1/generated.proto` and its imports. v1beta1 has the same fields.
//! serde writes the same fields as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use apimachinery::duration::go_duration;

use crate::provider::usage::Amounts;

use super::messages::{Quantity, Time};

/// `metav1.ObjectMeta`: only the fields that this server writes.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectMeta {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "3")]
    pub(super) namespace: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub(super) creation_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[prost(btree_map = "string, string", tag = "11")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `metav1.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct Window {
    #[prost(int64, optional, tag = "1")]
    nanos: Option<i64>,
}

impl From<Duration> for Window {
    fn from(window: Duration) -> Self {
        Self {
            nanos: i64::try_from(window.as_nanos()).ok(),
        }
    }
}

impl Serialize for Window {
    /// The duration as Go prints it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nanos = u64::try_from(self.nanos.unwrap_or_default());
        let window = Duration::from_nanos(nanos.unwrap_or_default());
        serializer.serialize_str(&go_duration(window))
    }
}

/// `corev1.ResourceList`.
pub(super) type ResourceList = BTreeMap<String, Quantity>;

pub(super) fn resource_list(amounts: Amounts) -> ResourceList {
    ResourceList::from([
        ("cpu".to_owned(), Quantity::decimal(amounts.cpu)),
        ("memory".to_owned(), Quantity::binary(amounts.memory)),
    ])
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct ContainerMetrics {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(super) usage: ResourceList,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct PodMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(super) timestamp: Option<Time>,
    #[prost(message, optional, tag = "3")]
    pub(super) window: Option<Window>,
    #[prost(message, repeated, tag = "4")]
    pub(super) containers: Vec<ContainerMetrics>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct NodeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(super) timestamp: Option<Time>,
    #[prost(message, optional, tag = "3")]
    pub(super) window: Option<Window>,
    #[prost(btree_map = "string, message", tag = "4")]
    pub(super) usage: ResourceList,
}
