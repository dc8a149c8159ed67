//! Legacy discovery: groups, versions, resources (docs/protocol.md, "Discovery
//! documents").
//!
//! Made from what is configured, never from what the metrics backend knows at
//! the moment: discovery must not fail when a backend does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIResource, APIResourceList, GroupVersionForDiscovery,
};

use crate::provider::Provider;

use super::json;
use super::negotiate::Format;
use super::path::{Group, Version};
use super::proto::{self, messages};

/// Whether a group is served: one without any metric is not, because clients
/// warn about empty groups.
pub(crate) fn is_served(provider: &dyn Provider, group: Group) -> bool {
    match group {
        Group::Custom => !provider.custom_metrics().is_empty(),
        Group::External => !provider.external_metrics().is_empty(),
    }
}

/// `GET /apis`.
pub(crate) fn groups(provider: &dyn Provider, format: Format) -> Vec<u8> {
    let served = || {
        Group::ALL
            .into_iter()
            .filter(|group| is_served(provider, *group))
    };
    match format {
        Format::Json => {
            let groups = served().map(|group| without_type(&api_group(group)));
            json::document(&serde_json::json!({
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": groups.collect::<Vec<_>>(),
            }))
        }
        Format::Protobuf => {
            let list = messages::ApiGroupList {
                groups: served().map(group_message).collect(),
            };
            proto::document("v1", "APIGroupList", &list)
        }
    }
}

/// `GET /apis/<group>`.
pub(crate) fn group(group: Group, format: Format) -> Vec<u8> {
    match format {
        Format::Json => json::document(&api_group(group)),
        Format::Protobuf => proto::document("v1", "APIGroup", &group_message(group)),
    }
}

/// `GET /apis/<group>/<version>`.
pub(crate) fn resources(
    provider: &dyn Provider,
    group: Group,
    version: Version,
    format: Format,
) -> Vec<u8> {
    let (kind, entries) = entries(provider, group);
    let group_version = group_version(group, version);
    match format {
        Format::Json => json::document(&APIResourceList {
            group_version,
            resources: entries
                .into_iter()
                .map(|(name, namespaced)| APIResource {
                    name,
                    namespaced,
                    kind: kind.to_owned(),
                    verbs: vec!["get".to_owned()],
                    ..APIResource::default()
                })
                .collect(),
        }),
        Format::Protobuf => {
            let resources = entries
                .into_iter()
                .map(|(name, namespaced)| messages::ApiResource {
                    name: Some(name),
                    namespaced: Some(namespaced),
                    kind: Some(kind.to_owned()),
                    verbs: Some(messages::Verbs {
                        items: vec!["get".to_owned()],
                    }),
                    singular_name: Some(String::new()),
                })
                .collect();
            let list = messages::ApiResourceList {
                group_version: Some(group_version),
                resources,
            };
            proto::document("v1", "APIResourceList", &list)
        }
    }
}

/// Names and scopes, sorted. One resource has one scope: kube-apiserver drops a
/// whole version that says otherwise, so of two scopes the first stands.
pub(crate) fn entries(
    provider: &dyn Provider,
    group: Group,
) -> (&'static str, Vec<(String, bool)>) {
    match group {
        Group::Custom => {
            let metrics = provider.custom_metrics();
            let mut scopes = std::collections::BTreeMap::new();
            let mut entries: Vec<(String, bool)> = metrics
                .iter()
                .filter(|metric| {
                    *scopes.entry(&metric.resource).or_insert(metric.namespaced)
                        == metric.namespaced
                })
                .map(|metric| {
                    let name = format!("{}/{}", metric.resource, metric.metric);
                    (name, metric.namespaced)
                })
                .collect();
            entries.sort();
            ("MetricValueList", entries)
        }
        Group::External => {
            let metrics = provider.external_metrics();
            let mut entries: Vec<(String, bool)> = metrics
                .iter()
                .map(|name| (name.to_string(), true))
                .collect();
            entries.sort();
            ("ExternalMetricValueList", entries)
        }
    }
}

fn group_version(group: Group, version: Version) -> String {
    format!("{}/{}", group.name(), version.name())
}

fn group_message(group: Group) -> messages::ApiGroup {
    let versions: Vec<messages::GroupVersion> = group
        .versions()
        .iter()
        .map(|version| messages::GroupVersion {
            group_version: Some(group_version(group, *version)),
            version: Some(version.name().to_owned()),
        })
        .collect();
    messages::ApiGroup {
        name: Some(group.name().to_owned()),
        preferred_version: versions.first().cloned(),
        versions,
    }
}

/// Within a list, kube-apiserver writes groups without kind and version of their
/// own; k8s-openapi always writes both.
fn without_type(group: &APIGroup) -> serde_json::Value {
    let mut group = serde_json::to_value(group).unwrap_or_default();
    if let Some(fields) = group.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    group
}

fn api_group(group: Group) -> APIGroup {
    let versions: Vec<GroupVersionForDiscovery> = group
        .versions()
        .iter()
        .map(|version| GroupVersionForDiscovery {
            group_version: group_version(group, *version),
            version: version.name().to_owned(),
        })
        .collect();
    APIGroup {
        name: group.name().to_owned(),
        preferred_version: versions.first().cloned(),
        versions,
        ..APIGroup::default()
    }
}
