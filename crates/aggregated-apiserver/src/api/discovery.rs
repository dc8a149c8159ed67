//! Discovery documents: groups, their versions and resources (docs/protocol.md, "Discovery
//! documents", "Aggregated discovery"; api `apidiscovery/v2/types.go`).

use std::collections::BTreeMap;

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

/// `GET /apis/<group>/<version>`. The field `server` is the name by which a client can
/// recognize this server. Other clients ignore unknown fields.
pub(super) fn resources(group: &ServedGroup, version: &str, server: &str) -> Vec<u8> {
    let listed = |resource: &Resource| {
        json!({
            "name": resource.name, "singularName": "", "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs,
        })
    };
    let listed: Vec<Json> = group.resources.iter().map(listed).collect();
    encode::json(&json!({
        "kind": "APIResourceList", "apiVersion": "v1", "server": server,
        "groupVersion": format!("{}/{version}", group.name), "resources": listed,
    }))
}

/// `GET /apis` with an Accept for aggregated discovery: all groups, versions and resources.
pub(super) fn aggregated(served: &[ServedGroup]) -> Vec<u8> {
    let items: Vec<Json> = served.iter().map(with_resources).collect();
    encode::json(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    }))
}

fn with_resources(group: &ServedGroup) -> Json {
    let resources = aggregated_resources(group);
    let version = |version: &&'static str| json!({"version": version, "resources": resources, "freshness": "Current"});
    let versions: Vec<Json> = group.versions.iter().map(version).collect();
    json!({"metadata": {"name": group.name}, "versions": versions})
}

/// The parent of a subresource may be no resource of this server, such as the object that a
/// custom metric describes. Such a parent has no verbs and no kind.
fn aggregated_resources(group: &ServedGroup) -> Vec<Json> {
    let mut resources: BTreeMap<&str, Json> = BTreeMap::new();
    for listed in &group.resources {
        let (parent, subresource) = match listed.name.split_once('/') {
            Some((parent, subresource)) => (parent, Some(subresource)),
            None => (&*listed.name, None),
        };
        let (kind, verbs) = match subresource {
            Some(_) => ("", &[][..]),
            None => (listed.kind, listed.verbs),
        };
        let scope = match listed.namespaced {
            true => "Namespaced",
            false => "Cluster",
        };
        let resource = resources.entry(parent).or_insert_with(|| {
            json!({
                "resource": parent, "responseKind": response_kind(kind), "scope": scope,
                "singularResource": "", "verbs": verbs,
            })
        });
        let Some(subresource) = subresource else {
            continue;
        };
        let described = json!({
            "subresource": subresource, "responseKind": response_kind(listed.kind),
            "verbs": listed.verbs,
        });
        match &mut resource["subresources"] {
            Json::Array(all) => all.push(described),
            none => *none = json!([described]),
        }
    }
    resources.into_values().collect()
}

/// Empty group and version mean the document's. Some releases of kube-apiserver fail on a
/// missing response kind (a nil pointer), so it is always set.
fn response_kind(kind: &str) -> Json {
    json!({"group": "", "version": "", "kind": kind})
}
