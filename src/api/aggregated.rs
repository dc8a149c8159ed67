//! Aggregated discovery: all groups, versions and resources in one document
//! (docs/protocol.md, "Aggregated discovery"; api `apidiscovery/v2/types.go`).
//!
//! Both versions have one shape. kube-apiserver reads a missing response kind
//! as a nil pointer in some releases, so that it is always there.

use serde::Serialize;

use crate::provider::Provider;

use super::discovery;
use super::json;
use super::negotiate::Aggregated;
use super::path::Group;

/// The document for these groups.
pub(crate) fn document(provider: &dyn Provider, groups: &[Group], version: Aggregated) -> Vec<u8> {
    let items = groups.iter().map(|group| GroupDiscovery {
        metadata: Named { name: group.name() },
        versions: group
            .versions()
            .iter()
            .map(|version| VersionDiscovery {
                version: version.name(),
                freshness: "Current",
                resources: resources(provider, *group),
            })
            .collect(),
    });
    json::document(&GroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: format!("apidiscovery.k8s.io/{}", version.version()),
        metadata: Empty {},
        items: items.collect(),
    })
}

/// Custom metrics are subresources of what they describe, which is no resource
/// of ours itself: it has no verbs and no kind. External metrics are resources.
fn resources(provider: &dyn Provider, group: Group) -> Vec<ResourceDiscovery> {
    let (kind, entries) = discovery::entries(provider, group);
    let mut resources: Vec<ResourceDiscovery> = Vec::new();
    for (name, namespaced) in entries {
        let Some((resource, subresource)) = name.split_once('/') else {
            resources.push(ResourceDiscovery::new(&name, namespaced, kind, &["get"]));
            continue;
        };
        // Sorted by the whole name, `a-b/x` comes before `a/x`: the resource
        // may be any of those before.
        let known = resources
            .iter()
            .position(|known| known.resource == resource);
        let place = known.unwrap_or_else(|| {
            resources.push(ResourceDiscovery::new(resource, namespaced, "", &[]));
            resources.len() - 1
        });
        resources[place].subresources.push(SubresourceDiscovery {
            subresource: subresource.to_owned(),
            response_kind: ResponseKind::of(kind),
            verbs: &["get"],
        });
    }
    resources
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupDiscoveryList {
    kind: &'static str,
    api_version: String,
    metadata: Empty,
    items: Vec<GroupDiscovery>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Named {
    name: &'static str,
}

#[derive(Serialize)]
struct GroupDiscovery {
    metadata: Named,
    versions: Vec<VersionDiscovery>,
}

#[derive(Serialize)]
struct VersionDiscovery {
    version: &'static str,
    resources: Vec<ResourceDiscovery>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    response_kind: ResponseKind,
    scope: &'static str,
    singular_resource: &'static str,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery>,
}

impl ResourceDiscovery {
    fn new(
        resource: &str,
        namespaced: bool,
        kind: &'static str,
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            resource: resource.to_owned(),
            response_kind: ResponseKind::of(kind),
            scope: if namespaced { "Namespaced" } else { "Cluster" },
            singular_resource: "",
            verbs,
            subresources: Vec::new(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery {
    subresource: String,
    response_kind: ResponseKind,
    verbs: &'static [&'static str],
}

/// Empty group and version mean those of the document.
#[derive(Serialize)]
struct ResponseKind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
}

impl ResponseKind {
    const fn of(kind: &'static str) -> Self {
        Self {
            group: "",
            version: "",
            kind,
        }
    }
}
