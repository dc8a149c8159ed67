//! The usage of pods and nodes on the wire (docs/protocol.md, "Resource metrics"), with the
//! field numbers of metrics `pkg/apis/metrics/v1/generated.proto` and its imports. v1beta1 has
//! the same fields, and serde writes them as JSON. Upstream: kubernetes-sigs/metrics-server
//! `pkg/api`.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use serde::{Serialize, Serializer};

use aggregated_apiserver::api::encode::{self, ListEncoder, append_item};
use aggregated_apiserver::api::negotiate::Encoding;
use apimachinery::duration::go_duration;
use apimachinery::time::Timestamp;

use crate::provider::usage::{Amounts, Measured, Usage};

use super::group::GroupVersion;
use super::messages::{Quantity, Time};

pub(super) struct UsageEncoder {
    pub(super) of: GroupVersion,
    pub(super) encoding: Encoding,
    pub(super) measured: Measured,
    /// Whether the document is the only object instead of a list.
    pub(super) is_named: bool,
    /// The time of the request, which is the creation time of objects, as upstream.
    pub(super) now: Timestamp,
}

impl UsageEncoder {
    pub(super) fn document(&self, found: &[Usage]) -> Bytes {
        match self.measured {
            Measured::Pods => {
                let pods = found.iter().map(|it| PodMetrics::new(it, self.now));
                self.encode("PodMetrics", pods)
            }
            Measured::Nodes => {
                let nodes = found.iter().map(|it| NodeMetrics::new(it, self.now));
                self.encode("NodeMetrics", nodes)
            }
        }
    }

    fn encode<T: Message + Serialize>(
        &self,
        kind: &str,
        mut objects: impl Iterator<Item = T>,
    ) -> Bytes {
        let (encoding, api_version) = (self.encoding, self.of.to_string());
        if self.is_named {
            let object = objects.next();
            let object = object.map(|it| encode::object(encoding, &api_version, kind, &it));
            return object.unwrap_or_default().into();
        }
        let mut list = ListEncoder::new(encoding, api_version, format!("{kind}List"));
        objects.for_each(|it| append_item(encoding, &it, list.items()));
        list.finish()
    }
}

/// `metav1.ObjectMeta`: only the fields that this server writes.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "3")]
    namespace: Option<String>,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
}

impl ObjectMeta {
    fn new(usage: &Usage, now: Timestamp) -> Self {
        let object = &usage.object;
        let labels = object.labels.iter();
        Self {
            name: Some(object.name.to_string()),
            namespace: object.namespace.as_ref().map(ToString::to_string),
            creation_timestamp: Some(now.into()),
            labels: labels
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        }
    }
}

/// `metav1.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct Window {
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
type ResourceList = BTreeMap<String, Quantity>;

fn resource_list(amounts: Amounts) -> ResourceList {
    ResourceList::from([
        ("cpu".to_owned(), Quantity::decimal(amounts.cpu)),
        ("memory".to_owned(), Quantity::binary(amounts.memory)),
    ])
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
struct ContainerMetrics {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(btree_map = "string, message", tag = "2")]
    usage: ResourceList,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct PodMetrics {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    timestamp: Option<Time>,
    #[prost(message, optional, tag = "3")]
    window: Option<Window>,
    #[prost(message, repeated, tag = "4")]
    containers: Vec<ContainerMetrics>,
}

impl PodMetrics {
    fn new(usage: &Usage, now: Timestamp) -> Self {
        let containers = usage.parts.iter().map(|(name, amounts)| ContainerMetrics {
            name: Some(name.clone()),
            usage: resource_list(*amounts),
        });
        Self {
            metadata: Some(ObjectMeta::new(usage, now)),
            timestamp: Some(usage.at.into()),
            window: Some(Window::from(usage.window)),
            containers: containers.collect(),
        }
    }
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
struct NodeMetrics {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    timestamp: Option<Time>,
    #[prost(message, optional, tag = "3")]
    window: Option<Window>,
    #[prost(btree_map = "string, message", tag = "4")]
    usage: ResourceList,
}

impl NodeMetrics {
    fn new(usage: &Usage, now: Timestamp) -> Self {
        let amounts = usage.parts.first().map(|(_, amounts)| *amounts);
        Self {
            metadata: Some(ObjectMeta::new(usage, now)),
            timestamp: Some(usage.at.into()),
            window: Some(Window::from(usage.window)),
            usage: resource_list(amounts.unwrap_or_default()),
        }
    }
}
