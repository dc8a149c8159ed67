//! Discovery documents: groups, their versions and resources (docs/protocol.md, "Discovery
//! documents", "Aggregated discovery"; api `apidiscovery/v2/types.go`).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::encode;

/// A group that the server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedGroup {
    /// The name in paths and documents.
    pub name: &'static str,
    /// Its versions, the preferred one first.
    pub versions: Vec<&'static str>,
    /// Its resources, sorted by name, the same in each version.
    pub resources: Vec<Resource>,
}

/// A resource, or a subresource `RESOURCE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// The name in paths.
    pub name: String,
    /// Whether its objects are in namespaces. kube-apiserver drops a version in which a
    /// resource has two scopes.
    pub namespaced: bool,
    /// The kind of the response.
    pub kind: &'static str,
    /// The verbs that are served.
    pub verbs: &'static [&'static str],
}

/// `GET /apis`.
pub(super) fn groups(served: &[ServedGroup]) -> Vec<u8> {
    let groups: Vec<Json> = served.iter().map(described).collect();
    encode::json(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

fn described(group: &ServedGroup) -> Json {
    let version = |version: &&'static str| {
        let group_version = format!("{}/{version}", group.name);
        json!({"groupVersion": group_version, "version": version})
    };
    let versions: Vec<Json> = group.versions.iter().map(version).collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList<'a> {
    kind: &'static str,
    api_version: &'static str,
    server: &'a str,
    group_version: String,
    resources: Vec<ListedResource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedResource<'a> {
    name: &'a str,
    singular_name: &'static str,
    namespaced: bool,
    kind: &'static str,
    verbs: &'static [&'static str],
}

/// `GET /apis/<group>/<version>`. The field `server` is the name by which a client can
/// recognize this server. Other clients ignore unknown fields.
pub(super) fn resources(group: &ServedGroup, version: &str, server: &str) -> Vec<u8> {
    let listed = group.resources.iter().map(|resource| ListedResource {
        name: &resource.name,
        singular_name: "",
        namespaced: resource.namespaced,
        kind: resource.kind,
        verbs: resource.verbs,
    });
    encode::json(&ResourceList {
        kind: "APIResourceList",
        api_version: "v1",
        server,
        group_version: format!("{}/{version}", group.name),
        resources: listed.collect(),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource<'a> {
    resource: &'a str,
    response_kind: ResponseKind,
    scope: &'static str,
    singular_resource: &'static str,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<AggregatedSubresource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedSubresource<'a> {
    subresource: &'a str,
    response_kind: ResponseKind,
    verbs: &'static [&'static str],
}

/// Empty group and version mean the document's. Some releases of kube-apiserver fail on a
/// missing response kind (a nil pointer), so it is always set.
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

/// `GET /apis` with an Accept for aggregated discovery: all groups, versions and resources.
pub(super) fn aggregated(served: &[ServedGroup]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Group<'a> {
        metadata: Json,
        versions: Vec<Version<'a>>,
    }
    #[derive(Serialize)]
    struct Version<'a> {
        version: &'static str,
        resources: &'a [AggregatedResource<'a>],
        freshness: &'static str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct GroupList<'a> {
        kind: &'static str,
        api_version: &'static str,
        metadata: Json,
        items: Vec<Group<'a>>,
    }
    let of_groups: Vec<_> = served.iter().map(aggregated_resources).collect();
    let items = served
        .iter()
        .zip(&of_groups)
        .map(|(group, resources)| Group {
            metadata: json!({"name": group.name}),
            versions: (group.versions.iter())
                .map(|version| Version {
                    version,
                    resources,
                    freshness: "Current",
                })
                .collect(),
        });
    encode::json(&GroupList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: json!({}),
        items: items.collect(),
    })
}

/// The parent of a subresource may be no resource of this server, such as the object that a
/// custom metric describes. Such a parent has no verbs and no kind.
fn aggregated_resources(group: &ServedGroup) -> Vec<AggregatedResource<'_>> {
    let mut resources: BTreeMap<&str, AggregatedResource<'_>> = BTreeMap::new();
    for listed in &group.resources {
        let (parent, subresource) = match listed.name.split_once('/') {
            Some((parent, subresource)) => (parent, Some(subresource)),
            None => (&*listed.name, None),
        };
        let (kind, verbs) = match subresource {
            Some(_) => ("", &[][..]),
            None => (listed.kind, listed.verbs),
        };
        let resource = resources.entry(parent).or_insert(AggregatedResource {
            resource: parent,
            response_kind: ResponseKind::of(kind),
            scope: match listed.namespaced {
                true => "Namespaced",
                false => "Cluster",
            },
            singular_resource: "",
            verbs,
            subresources: Vec::new(),
        });
        resource
            .subresources
            .extend(subresource.map(|subresource| AggregatedSubresource {
                subresource,
                response_kind: ResponseKind::of(listed.kind),
                verbs: listed.verbs,
            }));
    }
    resources.into_values().collect()
}
