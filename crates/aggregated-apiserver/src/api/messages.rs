//! Protobuf messages with the field numbers of apimachinery's `pkg/apis/meta/v1/generated.proto`
//! and related files (docs/protocol.md, "Protobuf"). Upstream never changes them.
//!
//! Every scalar is optional, because proto2 distinguishes an absent value from a default.
//! serde writes the same fields as JSON.

#![expect(missing_docs, reason = "upstream documents the fields")]

use serde::Serialize;

/// `metav1.ListMeta`: no field is ever set.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub struct ListMeta {}

/// `metav1.Status`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ListMeta>,
    #[prost(string, optional, tag = "2")]
    pub status: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub message: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(message, optional, tag = "5")]
    pub details: Option<StatusDetails>,
    #[prost(int32, optional, tag = "6")]
    pub code: Option<i32>,
}

/// `metav1.StatusDetails`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "2")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(string, optional, tag = "3")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[prost(int32, optional, tag = "5")]
    pub retry_after_seconds: Option<i32>,
}

/// `metav1.APIGroupList`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroupList {
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<ApiGroup>,
}

/// `metav1.APIGroup`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroup {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub versions: Vec<GroupVersionForDiscovery>,
    #[prost(message, optional, tag = "3")]
    pub preferred_version: Option<GroupVersionForDiscovery>,
}

/// `metav1.GroupVersionForDiscovery`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersionForDiscovery {
    #[prost(string, optional, tag = "1")]
    pub group_version: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub version: Option<String>,
}

/// `metav1.APIResourceList`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResourceList {
    #[prost(string, optional, tag = "1")]
    pub group_version: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<ApiResource>,
}

/// `metav1.APIResource`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(bool, optional, tag = "2")]
    pub namespaced: Option<bool>,
    #[prost(string, optional, tag = "3")]
    pub kind: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub verbs: Option<Verbs>,
    #[prost(string, optional, tag = "6")]
    pub singular_name: Option<String>,
}

/// `metav1.Verbs`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(transparent)]
pub struct Verbs {
    #[prost(string, repeated, tag = "1")]
    pub items: Vec<String>,
}
