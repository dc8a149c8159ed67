//! The groups and resources that discovery lists (docs/protocol.md, "Discovery documents").
//!
//! They depend on the configuration, never on the metrics backend's current data, because
//! discovery must not fail when a backend does.

use std::collections::BTreeMap;
use std::sync::Arc;

use aggregated_apiserver::api::discovery::{Resource, ServedGroup};
use aggregated_apiserver::api::documents::{Documents, OpenApi};

use crate::provider::ListedMetrics;

use super::group::MetricsGroup;

/// The schemas of the paths and lists of all groups (docs/protocol.md, "OpenAPI"). Types of
/// apimachinery are written out where they are used, because definitions would conflict with
/// those of kube-apiserver under the same names.
const OPENAPI: OpenApi = OpenApi {
    v2: include_bytes!("openapi/v2.json"),
    v3: include_bytes!("openapi/v3.json"),
};

/// The documents about a configuration's metrics.
#[derive(Debug)]
pub(super) struct ConfiguredDocuments {
    pub(super) listed: Arc<ListedMetrics>,
    pub(super) documents: Documents,
}

impl ConfiguredDocuments {
    pub(super) fn of(listed: Arc<ListedMetrics>) -> Self {
        let documents = Documents::new(env!("CARGO_PKG_NAME"), &served(&listed), OPENAPI);
        Self { listed, documents }
    }
}

/// The groups that are served. Custom and external metrics are served even without any
/// metric, because kube-apiserver treats a 404 as a failure of the server.
fn served(listed: &ListedMetrics) -> Vec<ServedGroup> {
    let served = MetricsGroup::ALL
        .into_iter()
        .filter(|group| listed.usage || *group != MetricsGroup::Resource);
    let described = |group: MetricsGroup| ServedGroup {
        name: group.name(),
        versions: group.versions().iter().map(|it| it.name()).collect(),
        resources: resources(listed, group),
    };
    served.map(described).collect()
}

/// The resources of a group, sorted. A resource has one scope, that of its first metric,
/// because kube-apiserver drops a version in which a resource has two.
fn resources(listed: &ListedMetrics, group: MetricsGroup) -> Vec<Resource> {
    let value = |name: String, namespaced| Resource {
        name,
        namespaced,
        kind: group.list_kind(),
        verbs: &["get"],
    };
    let mut resources: Vec<Resource> = match group {
        MetricsGroup::Custom => {
            let mut scopes = BTreeMap::new();
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
