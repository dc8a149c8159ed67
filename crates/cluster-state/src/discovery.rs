//! The discovery of a kind (`kubernetes.io/docs/concepts/overview/kubernetes-api`,
//! "Discovery API").

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource, APIResourceList};
use serde::de::DeserializeOwned;

use super::client::Client;
use super::error::CallError;
use super::pool::KindName;
use super::wire::is_name;
use gpu_metrics::inventory::ObjectKind;

/// The largest discovery document.
const DISCOVERY_BYTES: usize = 4 * 1024 * 1024;

/// The most versions of a group that are searched.
const MOST_VERSIONS: usize = 8;

/// The remedy where discovery is forbidden.
pub(super) const REMEDY: &str = "bind the ClusterRole system:discovery to the server's account";

/// The version of every object of the core group.
const CORE_VERSION: &str = "v1";

/// Looks a kind up. `None`: it is not served, is cluster-scoped, or cannot be listed
/// and watched.
///
/// The reference's version is tried first. Users write it, so if that version does
/// not serve the kind, the group's preferred version is tried, and then the others.
pub(super) async fn discover(
    client: &Client,
    kind: &KindName,
) -> Result<Option<ObjectKind>, CallError> {
    let found = in_version(client, kind, &kind.version).await?;
    if found.is_some() {
        return Ok(found);
    }
    let versions = if kind.group.is_empty() {
        vec![CORE_VERSION.to_owned()]
    } else {
        let path = format!("/apis/{}", kind.group);
        let Some(group) = document::<APIGroup>(client, &path).await? else {
            return Ok(None);
        };
        let all = group.preferred_version.into_iter().chain(group.versions);
        let mut versions: Vec<String> = Vec::new();
        for version in all.map(|it| it.version) {
            if versions.len() < MOST_VERSIONS && !versions.contains(&version) {
                versions.push(version);
            }
        }
        versions
    };
    for version in versions {
        if version == *kind.version || !is_name(&version) {
            continue;
        }
        let found = in_version(client, kind, &version).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

async fn in_version(
    client: &Client,
    kind: &KindName,
    version: &str,
) -> Result<Option<ObjectKind>, CallError> {
    let (path, api_version) = if kind.group.is_empty() {
        (format!("/api/{version}"), version.to_owned())
    } else {
        let api_version = format!("{}/{version}", kind.group);
        (format!("/apis/{api_version}"), api_version)
    };
    let Some(list) = document::<APIResourceList>(client, &path).await? else {
        return Ok(None);
    };
    let is_it = |resource: &&APIResource| {
        let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
        resource.kind == *kind.kind
            && is_name(&resource.name)
            && !resource.name.contains('.')
            && resource.namespaced
            && can("list")
            && can("watch")
    };
    let found = list.resources.iter().find(is_it);
    Ok(found.map(|resource| {
        let name = if kind.group.is_empty() {
            resource.name.clone()
        } else {
            format!("{}.{}", resource.name, kind.group)
        };
        ObjectKind::new(&name, &kind.kind, &api_version, true)
    }))
}

/// A discovery document; `None`: not served.
async fn document<T: DeserializeOwned>(
    client: &Client,
    path: &str,
) -> Result<Option<T>, CallError> {
    match client.get(path, "application/json", DISCOVERY_BYTES).await {
        Ok(body) => serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| client.garbled(error)),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.with_remedy(REMEDY)),
    }
}
