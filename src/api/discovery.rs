//! Legacy discovery: groups, versions, resources (docs/protocol.md, "Discovery
//! documents").
//!
//! Built from the configuration, never from the metrics backend's current data: discovery
//! must not fail when a backend does.

use crate::provider::Provider;

use super::group::{Group, GroupVersion};
use super::messages::{
    ApiGroup, ApiGroupList, ApiResource, ApiResourceList, GroupVersionForDiscovery, Verbs,
};
use super::negotiate::Format;
use super::object;

/// Whether a group is served. Registered groups always are, even without any metric:
/// kube-apiserver takes a 404 as a failure of the server.
pub(crate) fn is_served(provider: &dyn Provider, group: Group) -> bool {
    match group {
        Group::Custom | Group::External => true,
        Group::Resource => provider.knows_usage(),
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

/// A resource, or a subresource `pods/METRIC`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) namespaced: bool,
    pub(crate) kind: &'static str,
    pub(crate) verbs: &'static [&'static str],
}

/// `GET /apis/<group>/<version>`.
pub(crate) fn resources(provider: &dyn Provider, of: GroupVersion, format: Format) -> Vec<u8> {
    let resource = |entry: Entry| ApiResource {
        name: Some(entry.name),
        namespaced: Some(entry.namespaced),
        kind: Some(entry.kind.to_owned()),
        verbs: Some(Verbs {
            items: entry.verbs.iter().map(ToString::to_string).collect(),
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

/// The resources of a group, sorted. A resource has one scope: kube-apiserver drops a
/// version in which it has two, so the first scope wins.
pub(crate) fn entries(provider: &dyn Provider, group: Group) -> Vec<Entry> {
    let value = |name: String, namespaced| Entry {
        name,
        namespaced,
        kind: group.list_kind(),
        verbs: &["get"],
    };
    let mut entries: Vec<Entry> = match group {
        Group::Custom => {
            let metrics = provider.custom_metrics();
            let mut scopes = std::collections::BTreeMap::new();
            metrics
                .iter()
                .filter(|metric| {
                    *scopes.entry(&metric.resource).or_insert(metric.namespaced)
                        == metric.namespaced
                })
                .map(|metric| {
                    let name = format!("{}/{}", metric.resource, metric.metric);
                    value(name, metric.namespaced)
                })
                .collect()
        }
        Group::External => {
            let metrics = provider.external_metrics();
            let names = metrics.iter();
            names.map(|name| value(name.to_string(), true)).collect()
        }
        Group::Resource => [
            ("nodes", false, "NodeMetrics"),
            ("pods", true, "PodMetrics"),
        ]
        .map(|(name, namespaced, kind)| Entry {
            name: name.to_owned(),
            namespaced,
            kind,
            verbs: &["get", "list"],
        })
        .into(),
    };
    entries.sort();
    entries
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
