//! Legacy discovery: groups, versions, resources (docs/protocol.md, "Discovery
//! documents").
//!
//! Made from what is configured, never from what the metrics backend knows at
//! the moment: discovery must not fail when a backend does.

use crate::provider::Provider;

use super::group::{Group, GroupVersion};
use super::messages::{
    ApiGroup, ApiGroupList, ApiResource, ApiResourceList, GroupVersionForDiscovery, Verbs,
};
use super::negotiate::Format;
use super::object;

/// Whether a group is served: one without any metric is not, because clients
/// warn about empty groups.
pub(crate) fn is_served(provider: &dyn Provider, group: Group) -> bool {
    match group {
        Group::Custom => !provider.custom_metrics().is_empty(),
        Group::External => !provider.external_metrics().is_empty(),
    }
}

/// `GET /apis`.
pub(crate) fn groups(served: &[Group], format: Format) -> Vec<u8> {
    let groups = served.iter().map(|group| described(*group)).collect();
    object::encode(format, "APIGroupList", &ApiGroupList { groups })
}

/// `GET /apis/<group>`.
pub(crate) fn group(group: Group, format: Format) -> Vec<u8> {
    object::encode(format, "APIGroup", &described(group))
}

/// `GET /apis/<group>/<version>`.
pub(crate) fn resources(provider: &dyn Provider, of: GroupVersion, format: Format) -> Vec<u8> {
    let resource = |(name, namespaced)| ApiResource {
        name: Some(name),
        namespaced: Some(namespaced),
        kind: Some(of.group.list_kind().to_owned()),
        verbs: Some(Verbs {
            items: vec!["get".to_owned()],
        }),
        singular_name: Some(String::new()),
    };
    let entries = entries(provider, of.group).into_iter();
    let list = ApiResourceList {
        group_version: Some(of.to_string()),
        resources: entries.map(resource).collect(),
    };
    object::encode(format, "APIResourceList", &list)
}

/// Names and scopes, sorted. One resource has one scope: kube-apiserver drops a
/// whole version that says otherwise, so of two scopes the first stands.
pub(crate) fn entries(provider: &dyn Provider, group: Group) -> Vec<(String, bool)> {
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
            entries
        }
        Group::External => {
            let metrics = provider.external_metrics();
            let mut entries: Vec<(String, bool)> = metrics
                .iter()
                .map(|name| (name.to_string(), true))
                .collect();
            entries.sort();
            entries
        }
    }
}

fn described(group: Group) -> ApiGroup {
    let version = |of: GroupVersion| GroupVersionForDiscovery {
        group_version: Some(of.to_string()),
        version: Some(of.version.name().to_owned()),
    };
    let versions: Vec<GroupVersionForDiscovery> = group.versions().map(version).collect();
    ApiGroup {
        name: Some(group.name().to_owned()),
        preferred_version: versions.first().cloned(),
        versions,
    }
}
