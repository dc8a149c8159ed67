//! The envelope and the value lists as messages: an independent decoder for the output of
//! the direct encoder. serde writes them as the direct encoder of JSON does.

use std::collections::BTreeMap;

use serde::Serialize;

use aggregated_apiserver::api::messages::ListMeta;

use crate::api::messages::LabelSelector;
use crate::api::usage_messages::{Quantity, Time};

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

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference {
    #[prost(string, optional, tag = "1")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "2")]
    namespace: Option<String>,
    #[prost(string, optional, tag = "3")]
    name: Option<String>,
    #[prost(string, optional, tag = "5")]
    api_version: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
struct MetricIdentifier {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(message, optional, tag = "2")]
    selector: Option<LabelSelector>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricValueV1Beta2 {
    #[prost(message, optional, tag = "1")]
    described_object: Option<ObjectReference>,
    #[prost(message, optional, tag = "2")]
    metric: Option<MetricIdentifier>,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int64, optional, tag = "4")]
    window_seconds: Option<i64>,
    #[prost(message, optional, tag = "5")]
    value: Option<Quantity>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricValueV1Beta1 {
    #[prost(message, optional, tag = "1")]
    described_object: Option<ObjectReference>,
    #[prost(string, optional, tag = "2")]
    metric_name: Option<String>,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int64, optional, tag = "4")]
    window: Option<i64>,
    #[prost(message, optional, tag = "5")]
    value: Option<Quantity>,
    #[prost(message, optional, tag = "6")]
    selector: Option<LabelSelector>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExternalMetricValue {
    #[prost(string, optional, tag = "1")]
    metric_name: Option<String>,
    #[prost(btree_map = "string, string", tag = "2")]
    metric_labels: BTreeMap<String, String>,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int64, optional, tag = "4")]
    window: Option<i64>,
    #[prost(message, optional, tag = "5")]
    value: Option<Quantity>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct ListV1Beta2 {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<MetricValueV1Beta2>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct ListV1Beta1 {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<MetricValueV1Beta1>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(super) struct ExternalList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<ExternalMetricValue>,
}
