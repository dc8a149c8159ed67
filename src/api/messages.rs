//! Messages with the numbers of apimachinery's `pkg/apis/meta/v1/generated.proto` and its
//! siblings (docs/protocol.md, "Protobuf"). Frozen upstream.
//!
//! Every scalar is optional as in proto2, which distinguishes an absent value from a
//! default. serde writes the same in JSON.

use std::collections::BTreeMap;

use serde::Serialize;

/// `metav1.ListMeta`: no field is ever set.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    #[serde(skip)]
    #[prost(string, optional, tag = "1")]
    pub(crate) self_link: Option<String>,
    #[serde(skip)]
    #[prost(string, optional, tag = "2")]
    pub(crate) resource_version: Option<String>,
    #[serde(skip)]
    #[prost(string, optional, tag = "3")]
    pub(crate) continue_token: Option<String>,
}

/// `metav1.Status`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(string, optional, tag = "2")]
    pub(crate) status: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) message: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(message, optional, tag = "5")]
    pub(crate) details: Option<StatusDetails>,
    #[prost(int32, optional, tag = "6")]
    pub(crate) code: Option<i32>,
}

/// `metav1.StatusDetails`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "2")]
    pub(crate) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "3")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int32, optional, tag = "5")]
    pub(crate) retry_after_seconds: Option<i32>,
}

/// `metav1.APIGroupList`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiGroupList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) groups: Vec<ApiGroup>,
}

/// `metav1.APIGroup`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiGroup {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) versions: Vec<GroupVersionForDiscovery>,
    #[prost(message, optional, tag = "3")]
    pub(crate) preferred_version: Option<GroupVersionForDiscovery>,
}

/// `metav1.GroupVersionForDiscovery`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupVersionForDiscovery {
    #[prost(string, optional, tag = "1")]
    pub(crate) group_version: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) version: Option<String>,
}

/// `metav1.APIResourceList`. In JSON it names the server, so that `check` can tell it
/// from another one. Clients ignore unknown fields.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(
    tag = "server",
    rename = "gpu-metrics-apiserver",
    rename_all = "camelCase"
)]
pub(crate) struct ApiResourceList {
    #[prost(string, optional, tag = "1")]
    pub(crate) group_version: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) resources: Vec<ApiResource>,
}

/// `metav1.APIResource`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiResource {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(bool, optional, tag = "2")]
    pub(crate) namespaced: Option<bool>,
    #[prost(string, optional, tag = "3")]
    pub(crate) kind: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub(crate) verbs: Option<Verbs>,
    #[prost(string, optional, tag = "6")]
    pub(crate) singular_name: Option<String>,
}

/// `metav1.Verbs`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(transparent)]
pub(crate) struct Verbs {
    #[prost(string, repeated, tag = "1")]
    pub(crate) items: Vec<String>,
}

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
