//! Protobuf messages with the field numbers of apimachinery's `pkg/apis/meta/v1/generated.proto`
//! (docs/protocol.md, "Protobuf"). Upstream never changes them.
//!
//! Every scalar is optional, because proto2 distinguishes an absent value from a default.
//! serde writes the same fields as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

/// `metav1.LabelSelector`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[prost(btree_map = "string, string", tag = "1")]
    pub(crate) match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[prost(message, repeated, tag = "2")]
    pub(crate) match_expressions: Vec<LabelSelectorRequirement>,
}

/// `metav1.LabelSelectorRequirement`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelSelectorRequirement {
    #[prost(string, optional, tag = "1")]
    pub(crate) key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) operator: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[prost(string, repeated, tag = "3")]
    pub(crate) values: Vec<String>,
}
