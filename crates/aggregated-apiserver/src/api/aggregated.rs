//! Aggregated discovery: all groups, versions and resources in one document
//! (docs/protocol.md, "Aggregated discovery"; api `apidiscovery/v2/types.go`).
//!
//! Both versions have the same shape. Some releases of kube-apiserver fail on a missing
//! response kind (a nil pointer), so it is always set.

use serde_json::{Value as Json, json};

use super::discovery::{Resource, ServedGroup};
use super::json;
use super::negotiate::Aggregated;

/// The document for these groups.
pub fn document(served: &[ServedGroup], version: Aggregated) -> Vec<u8> {
    let group = |group: &ServedGroup| {
        let resources = resources(group);
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
    json::document(&json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{}", version.version()),
        "metadata": {},
        "items": served.iter().map(group).collect::<Vec<Json>>(),
    }))
}

/// The parent of a subresource may be no resource of this server, such as the object that a
/// custom metric describes. Such a parent has no verbs and no kind.
fn resources(group: &ServedGroup) -> Vec<Json> {
    let mut resources: Vec<Json> = Vec::new();
    for listed in &group.resources {
        let Resource {
            name,
            namespaced,
            kind,
            verbs,
        } = listed;
        let Some((resource, subresource)) = name.split_once('/') else {
            resources.push(described(name, *namespaced, kind, verbs));
            continue;
        };
        // Sorted by the whole name, `a-b/x` comes before `a/x`: the resource may be any
        // of the previous ones.
        let known = resources
            .iter()
            .position(|known| known["resource"] == resource);
        let place = known.unwrap_or_else(|| {
            let mut parent = described(resource, *namespaced, "", &[]);
            parent["subresources"] = json!([]);
            resources.push(parent);
            resources.len() - 1
        });
        if let Some(subresources) = resources[place]["subresources"].as_array_mut() {
            subresources.push(json!({
                "subresource": subresource,
                "responseKind": response_kind(kind),
                "verbs": verbs,
            }));
        }
    }
    resources
}

fn described(resource: &str, namespaced: bool, kind: &str, verbs: &[&str]) -> Json {
    json!({
        "resource": resource,
        "responseKind": response_kind(kind),
        "scope": if namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": "",
        "verbs": verbs,
    })
}

/// Empty group and version mean the document's.
fn response_kind(kind: &str) -> Json {
    json!({"group": "", "version": "", "kind": kind})
}
