//! All kinds that the cluster serves, from aggregated discovery
//! (`kubernetes.io/docs/concepts/overview/kubernetes-api`, "Aggregated discovery"). It
//! takes two requests, whatever the number of kinds.

use std::sync::Arc;

use http::Request;
use http::header::ACCEPT;
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery};

use super::client::Client;
use super::error::CallError;
use super::rights;
use apimachinery::kinds::{Kind, Kinds};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// Reads all kinds, the core group first.
///
/// # Errors
/// When kube-apiserver does not answer, forbids discovery, or answers with another
/// document.
pub async fn kinds(client: &Client) -> Result<Kinds, CallError> {
    let mut kinds = Vec::new();
    for path in ["/api", "/apis"] {
        let request = Request::get(path).header(ACCEPT, AGGREGATED);
        let text = client.text(request.body(Vec::new())).await;
        let text = text.map_err(|error| error.without_right(rights::DISCOVERY))?;
        let groups: APIGroupDiscoveryList =
            serde_json::from_str(&text).map_err(|error| client.garbled(error))?;
        kinds.extend(groups.items.into_iter().flat_map(of_group));
    }
    Ok(Kinds::new(kinds))
}

/// Each kind of a group, in the first version that has it. Versions are in order of preference.
fn of_group(group: APIGroupDiscovery) -> Vec<Kind> {
    let name: Arc<str> = group
        .metadata
        .and_then(|it| it.name)
        .unwrap_or_default()
        .into();
    let mut kinds: Vec<Kind> = Vec::new();
    for version in group.versions {
        let served: Arc<str> = version.version.unwrap_or_default().into();
        for resource in version.resources {
            let kind = kind(resource, &name, &served);
            if kinds.iter().all(|known| known.plural != kind.plural) {
                kinds.push(kind);
            }
        }
    }
    kinds
}

fn kind(resource: APIResourceDiscovery, group: &Arc<str>, version: &Arc<str>) -> Kind {
    let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
    let watchable = can("list") && can("watch");
    let kind = resource
        .response_kind
        .and_then(|it| it.kind)
        .unwrap_or_default();
    let singular = resource.singular_resource.filter(|it| !it.is_empty());
    Kind {
        group: Arc::clone(group),
        version: Arc::clone(version),
        plural: resource.resource.unwrap_or_default().into(),
        singular: singular.unwrap_or_else(|| kind.to_lowercase()).into(),
        short: resource.short_names.into_iter().map(Into::into).collect(),
        kind: kind.into(),
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        watchable,
    }
}
