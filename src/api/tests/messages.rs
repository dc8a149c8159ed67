//! The envelope and the value lists as messages: the tests' own decoder of the direct
//! encoder's output.

use aggregated_apiserver::api::messages::ListMeta;

use crate::api::messages::LabelSelector;

/// `runtime.Unknown`: the envelope behind the four magic bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub(crate) type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(crate) raw: Option<Vec<u8>>,
    #[prost(string, optional, tag = "3")]
    pub(crate) content_encoding: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) content_type: Option<String>,
}

/// `runtime.TypeMeta`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TypeMeta {
    #[prost(string, optional, tag = "1")]
    pub(crate) api_version: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) kind: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ObjectReference {
    #[prost(string, optional, tag = "1")]
    pub(crate) kind: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) namespace: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub(crate) api_version: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Time {
    #[prost(int64, optional, tag = "1")]
    pub(crate) seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) nanos: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Quantity {
    #[prost(string, optional, tag = "1")]
    pub(crate) text: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricIdentifier {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(crate) selector: Option<LabelSelector>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricValueV1Beta2 {
    #[prost(message, optional, tag = "1")]
    pub(crate) described_object: Option<ObjectReference>,
    #[prost(message, optional, tag = "2")]
    pub(crate) metric: Option<MetricIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub(crate) timestamp: Option<Time>,
    #[prost(int64, optional, tag = "4")]
    pub(crate) window_seconds: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) value: Option<Quantity>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricValueV1Beta1 {
    #[prost(message, optional, tag = "1")]
    pub(crate) described_object: Option<ObjectReference>,
    #[prost(string, optional, tag = "2")]
    pub(crate) metric_name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(crate) timestamp: Option<Time>,
    #[prost(int64, optional, tag = "4")]
    pub(crate) window: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) value: Option<Quantity>,
    #[prost(message, optional, tag = "6")]
    pub(crate) selector: Option<LabelSelector>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExternalMetricValue {
    #[prost(string, optional, tag = "1")]
    pub(crate) metric_name: Option<String>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) metric_labels: std::collections::BTreeMap<String, String>,
    #[prost(message, optional, tag = "3")]
    pub(crate) timestamp: Option<Time>,
    #[prost(int64, optional, tag = "4")]
    pub(crate) window: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) value: Option<Quantity>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListV1Beta2 {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) items: Vec<MetricValueV1Beta2>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListV1Beta1 {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) items: Vec<MetricValueV1Beta1>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExternalList {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) items: Vec<ExternalMetricValue>,
}
