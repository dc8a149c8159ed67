//! Discovery documents: groups, their versions and resources (docs/protocol.md, "Discovery
//! documents", "Aggregated discovery"; api `apidiscovery/v2/types.go`).

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

/// `GET /apis/<group>/<version>`. The field `server` is the name by which a client can
/// recognize this server. Other clients ignore unknown fields.
pub(super) fn resources(group: &ServedGroup, version: &str, server: &str) -> Vec<u8> {
    let resource = |resource: &Resource| {
        json!({
            "name": resource.name,
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs,
        })
    };
    encode::json(&json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "server": server,
        "groupVersion": format!("{}/{version}", group.name),
        "resources": group.resources.iter().map(resource).collect::<Vec<Json>>(),
    }))
}

fn described(group: &ServedGroup) -> Json {
    let version = |version: &&'static str| {
        let group_version = format!("{}/{version}", group.name);
        json!({"groupVersion": group_version, "version": version})
    };
    let versions: Vec<Json> = group.versions.iter().map(version).collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `GET /apis` with an Accept for aggregated discovery: all groups, versions and resources.
pub(super) fn aggregated(served: &[ServedGroup]) -> Vec<u8> {
    let group = |group: &ServedGroup| {
        let resources = aggregated_resources(group);
        let version = |version: &&'static str| {
            json!({
                "version": version,
                "resources": resources,
                "freshness": "Current",
            })
        };
        json!({
            "metadata": {"name": group.name},
            "versions": group.versions.iter().map(version).collect::<Vec<Json>>(),
        })
    };
    encode::json(&json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": served.iter().map(group).collect::<Vec<Json>>(),
    }))
}

/// The parent of a subresource may be no resource of this server, such as the object that a
/// custom metric describes. Such a parent has no verbs and no kind.
fn aggregated_resources(group: &ServedGroup) -> Vec<Json> {
    let mut resources: Vec<Json> = Vec::new();
    for listed in &group.resources {
        let Some((parent, subresource)) = listed.name.split_once('/') else {
            resources.push(aggregated_resource(
                &listed.name,
                listed.namespaced,
                listed.kind,
                listed.verbs,
            ));
            continue;
        };
        // Sorted by the whole name, `a-b/x` comes before `a/x`: the parent may be any of the
        // previous resources.
        let known = resources
            .iter()
            .position(|known| known["resource"] == parent);
        let place = known.unwrap_or_else(|| {
            let mut resource = aggregated_resource(parent, listed.namespaced, "", &[]);
            resource["subresources"] = json!([]);
            resources.push(resource);
            resources.len() - 1
        });
        if let Some(subresources) = resources[place]["subresources"].as_array_mut() {
            subresources.push(json!({
                "subresource": subresource,
                "responseKind": response_kind(listed.kind),
                "verbs": listed.verbs,
            }));
        }
    }
    resources
}

fn aggregated_resource(resource: &str, namespaced: bool, kind: &str, verbs: &[&str]) -> Json {
    json!({
        "resource": resource,
        "responseKind": response_kind(kind),
        "scope": if namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": "",
        "verbs": verbs,
    })
}

/// Empty group and version mean the document's. Some releases of kube-apiserver fail on a
/// missing response kind (a nil pointer), so it is always set.
fn response_kind(kind: &str) -> Json {
    json!({"group": "", "version": "", "kind": kind})
}
