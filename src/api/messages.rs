//! The objects of value lists, with the field numbers of apimachinery's
//! `pkg/apis/meta/v1/generated.proto` and of metrics `pkg/apis/custom_metrics` and
//! `pkg/apis/external_metrics` (docs/protocol.md, "Value lists", "Protobuf"). Upstream never
//! changes them.
//!
//! Every scalar is optional, because proto2 distinguishes an absent value from a default.
//! serde writes the same fields as JSON.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use apimachinery::quantity;
use apimachinery::time::Timestamp;

/// `metav1.Time`, in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct Time {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    nanos: Option<i32>,
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self {
            seconds: Some(at.secs()),
            nanos: Some(0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = Timestamp::from_secs(self.seconds.unwrap_or_default());
        serializer.serialize_str(&at.date())
    }
}

/// `resource.Quantity`.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize)]
#[serde(transparent)]
pub(super) struct Quantity {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

impl Quantity {
    /// A quantity of thousandths, with a decimal suffix.
    pub(super) fn decimal(milli: i64) -> Self {
        Self {
            text: Some(quantity::milli_text(milli)),
        }
    }

    /// A quantity of thousandths, with a suffix of 1024 if the result is a whole number.
    pub(super) fn binary(milli: i64) -> Self {
        Self {
            text: Some(quantity::binary_text(milli)),
        }
    }
}

/// `metav1.LabelSelector`. Items do not repeat the selector of their request, so none is ever
/// written.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct LabelSelector {}

/// `corev1.ObjectReference`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    #[prost(string, optional, tag = "1")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "2")]
    pub(super) namespace: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub(super) api_version: Option<String>,
}

/// `MetricIdentifier` of `custom.metrics.k8s.io/v1beta2`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct MetricIdentifier {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) selector: Option<LabelSelector>,
}

/// `MetricValue` of `custom.metrics.k8s.io/v1beta2`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricValueV1Beta2 {
    #[prost(message, optional, tag = "1")]
    pub(super) described_object: Option<ObjectReference>,
    #[prost(message, optional, tag = "2")]
    pub(super) metric: Option<MetricIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub(super) timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int64, optional, tag = "4")]
    pub(super) window_seconds: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(super) value: Option<Quantity>,
}

/// `MetricValue` of `custom.metrics.k8s.io/v1beta1`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricValueV1Beta1 {
    #[prost(message, optional, tag = "1")]
    pub(super) described_object: Option<ObjectReference>,
    #[prost(string, optional, tag = "2")]
    pub(super) metric_name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int64, optional, tag = "4")]
    pub(super) window: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(super) value: Option<Quantity>,
    #[prost(message, optional, tag = "6")]
    pub(super) selector: Option<LabelSelector>,
}

/// `ExternalMetricValue` of `external.metrics.k8s.io/v1beta1`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExternalMetricValue {
    #[prost(string, optional, tag = "1")]
    pub(super) metric_name: Option<String>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) metric_labels: BTreeMap<String, String>,
    #[prost(message, optional, tag = "3")]
    pub(super) timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int64, optional, tag = "4")]
    pub(super) window: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(super) value: Option<Quantity>,
}
