//! Legacy discovery: groups, versions, resources (docs/protocol.md, "Discovery
//! documents").
//!
//! The documents depend on the configuration, never on the metrics backend's current data,
//! because discovery must not fail when a backend does.

use aggregated_apiserver::api::discovery::{self, Resource};

use crate::provider::Provider;

use super::group::MetricsGroup;

/// Whether a group is served. Registered groups are always served, even without any metric,
/// because kube-apiserver treats a 404 as a failure of the server.
pub(crate) fn is_served(provider: &dyn Provider, group: MetricsGroup) -> bool {
    match group {
        MetricsGroup::Custom | MetricsGroup::External => true,
        MetricsGroup::Resource => provider.knows_usage(),
    }
}

/// The groups that are served, with their resources.
pub(crate) fn served(provider: &dyn Provider) -> Vec<(MetricsGroup, discovery::ServedGroup)> {
    let served = MetricsGroup::ALL
        .into_iter()
        .filter(|group| is_served(provider, *group));
    let described = |group: MetricsGroup| discovery::ServedGroup {
        name: group.name(),
        versions: group.versions().map(|of| of.version.name()).collect(),
        resources: resources(provider, group),
    };
    served.map(|group| (group, described(group))).collect()
}

/// The resources of a group, sorted. A resource has one scope, that of its first metric,
/// because kube-apiserver drops a version in which a resource has two.
fn resources(provider: &dyn Provider, group: MetricsGroup) -> Vec<Resource> {
    let value = |name: String, namespaced| Resource {
        name,
        namespaced,
        kind: group.list_kind(),
        verbs: &["get"],
    };
    let mut resources: Vec<Resource> = match group {
        MetricsGroup::Custom => {
            let listed = provider.listed();
            let mut scopes = std::collections::BTreeMap::new();
            listed
                .custom
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
        MetricsGroup::External => {
            let listed = provider.listed();
            let names = listed.external.iter();
            names.map(|name| value(name.to_string(), true)).collect()
        }
        MetricsGroup::Resource => [
            ("nodes", false, "NodeMetrics"),
            ("pods", true, "PodMetrics"),
        ]
        .map(|(name, namespaced, kind)| Resource {
            name: name.to_owned(),
            namespaced,
            kind,
            verbs: &["get", "list"],
        })
        .into(),
    };
    resources.sort();
    resources
}
