//! The metrics APIs as a client sees them: paths, lists, items.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use serde::Deserialize;

use cluster_state::error::CallError;
use configuration::GPU_RESOURCES;
use findings::{Finding, Skipped};
use gpu_metrics::resources::GpuResources;
use hpa::ratio::Milli;

use super::cluster::Cluster;
use cluster_checks::paths::encode;

pub(super) const CUSTOM_GROUP: &str = "/apis/custom.metrics.k8s.io";
pub(super) const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";
pub(super) const CUSTOM_V1BETA1: &str = "/apis/custom.metrics.k8s.io/v1beta1";

pub(super) const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces";

#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    pub(super) described_object: Option<Named>,
    pub(super) value: Milli,
}

#[derive(Debug, Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

/// The server's findings about its data, and its configuration.
#[derive(Debug, Deserialize)]
pub(super) struct FindingList {
    pub(super) items: Vec<Finding>,
    pub(super) skipped: Vec<Skipped>,
    /// Keys and values; empty if the server is too old to report them.
    #[serde(default)]
    pub(super) configuration: Vec<(String, String)>,
}

impl FindingList {
    pub(super) async fn read(cluster: &Cluster) -> Result<Self, CallError> {
        cluster.read(&format!("{CUSTOM}/findings")).await
    }

    /// The resources by which pods request GPUs.
    pub(super) fn gpu_resources(&self) -> GpuResources {
        let mut rows = self.configuration.iter();
        let row = rows.find(|(key, _)| key == GPU_RESOURCES);
        let names = row.map(|(_, names)| GpuResources::from_text(names));
        names.unwrap_or_default()
    }
}

/// Stands for the resource of external metrics.
pub(super) const EXTERNALLY: &str = "external";

pub(super) async fn served(
    cluster: &Cluster,
) -> Result<BTreeMap<String, BTreeSet<String>>, CallError> {
    let mut served: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in [CUSTOM, "/apis/external.metrics.k8s.io/v1beta1"] {
        let list = match cluster.read::<APIResourceList>(path).await {
            Err(CallError::NotFound(_)) => continue,
            list => list?,
        };
        for resource in list.resources {
            let name = resource.name.as_str();
            let (of, metric) = name.split_once('/').unwrap_or((EXTERNALLY, name));
            let objects = served.entry(metric.to_owned()).or_default();
            objects.insert(of.to_owned());
        }
    }
    Ok(served)
}

pub(super) fn names(items: Vec<Item>) -> Vec<String> {
    let described = items.into_iter().filter_map(|item| item.described_object);
    described.map(|of| of.name).collect()
}

/// A resource with the group of its API version: `deployments.apps`.
pub(super) fn grouped(version: &str, plural: &str) -> String {
    match version.split_once('/') {
        Some((group, _)) => format!("{plural}.{group}"),
        None => plural.to_owned(),
    }
}

/// The path of a metric of an object, or of all objects with the name `*`. For a
/// namespace, the path is in the namespace itself.
pub(super) fn of_object(
    (resource, namespace): (&str, Option<&str>),
    name: &str,
    metric: &str,
) -> String {
    let (name, metric) = (encode(name), encode(metric));
    match namespace {
        _ if resource == "namespaces" => format!("{CUSTOM}/namespaces/{name}/metrics/{metric}"),
        Some(namespace) => {
            let (namespace, resource) = (encode(namespace), encode(resource));
            format!("{CUSTOM}/namespaces/{namespace}/{resource}/{name}/{metric}")
        }
        None => format!("{CUSTOM}/{}/{name}/{metric}", encode(resource)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_asked_for_within_itself() {
        for (of, name, path) in [
            (("namespaces", None), "ml", "namespaces/ml/metrics/m"),
            (("nodes", None), "*", "nodes/*/m"),
            (("pods", Some("ml")), "a b", "namespaces/ml/pods/a%20b/m"),
        ] {
            assert_eq!(of_object(of, name, "m"), format!("{CUSTOM}/{path}"));
        }
    }
}
