//! All kinds that the cluster serves, by aggregated discovery
//! (`kubernetes.io/docs/concepts/overview/kubernetes-api`, "Aggregated discovery"):
//! two requests, whatever the number of kinds.

use std::sync::Arc;

use serde::Deserialize;

use super::client::Client;
use super::discovery::REMEDY;
use super::error::CallError;
use super::wire::is_name;
use apimachinery::kinds::{Kind, Kinds};

/// The largest discovery document.
const DISCOVERY_BYTES: usize = 16 * 1024 * 1024;

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    items: Vec<ApiGroupVersions>,
}

#[derive(Deserialize)]
struct ApiGroupVersions {
    #[serde(default)]
    metadata: GroupName,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    #[serde(default)]
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

/// Reads all kinds, the core group first.
///
/// # Errors
/// When kube-apiserver does not answer, or forbids discovery.
pub async fn kinds(client: &Client) -> Result<Kinds, CallError> {
    let mut kinds = Vec::new();
    for path in ["/api", "/apis"] {
        let body = client.get(path, ACCEPT, DISCOVERY_BYTES).await;
        let body = body.map_err(|error| error.with_remedy(REMEDY))?;
        let groups: Groups =
            serde_json::from_slice(&body).map_err(|error| client.garbled(error))?;
        kinds.extend(groups.items.into_iter().flat_map(of_group));
    }
    Ok(Kinds::new(kinds))
}

/// Each kind of a group, in the first version that has it: versions are in order of
/// preference.
fn of_group(group: ApiGroupVersions) -> Vec<Kind> {
    let name: Arc<str> = group.metadata.name.into();
    let mut kinds: Vec<Kind> = Vec::new();
    for version in group.versions {
        let served: Arc<str> = version.version.into();
        for resource in version.resources {
            let known = kinds.iter().any(|kind| *kind.plural == *resource.resource);
            if known || !is_name(&resource.resource) || !is_name(&served) {
                continue;
            }
            kinds.push(kind(resource, &name, &served));
        }
    }
    kinds
}

fn kind(resource: Resource, group: &Arc<str>, version: &Arc<str>) -> Kind {
    let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
    let watchable = can("list") && can("watch");
    let kind = resource.response_kind.kind;
    let singular = match resource.singular_resource.as_str() {
        "" => kind.to_lowercase(),
        singular => singular.to_owned(),
    };
    Kind {
        group: Arc::clone(group),
        version: Arc::clone(version),
        plural: resource.resource.into(),
        singular: singular.into(),
        short: resource.short_names.into_iter().map(Into::into).collect(),
        kind: kind.into(),
        namespaced: resource.scope == "Namespaced",
        watchable,
    }
}
