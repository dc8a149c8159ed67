//! The envelope and the value lists as messages, to decode answers.

use serde::Serialize;

use aggregated_apiserver::api::status::ListMeta;

use crate::api::messages::{ExternalMetricValue, MetricValueV1Beta1, MetricValueV1Beta2};

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
