//! The metrics APIs as a client sees them: paths, lists, items.

use std::collections::BTreeSet;

use serde::Deserialize;

use cluster_state::error::CallError;
use configuration::GPU_RESOURCES;
use findings::codes::OF_DATA;
use findings::source;
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
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct FindingList {
    pub(super) items: Vec<Finding>,
    #[serde(default)]
    pub(super) skipped: BTreeSet<Skipped>,
    /// Keys and values; empty if the server is too old to report them.
    #[serde(default)]
    pub(super) configuration: Vec<(String, String)>,
}

impl FindingList {
    /// Reads the list. A server without one has not seen the data.
    pub(super) async fn read(cluster: &Cluster) -> Result<Self, CallError> {
        match cluster.read(&format!("{CUSTOM}/findings")).await {
            Err(CallError::NotFound(_)) => Ok(Self {
                skipped: [source::unseen(NO_FINDINGS, INSTALL)].into(),
                ..Self::default()
            }),
            list => list,
        }
    }

    /// The resources by which pods request GPUs.
    pub(super) fn gpu_resources(&self) -> GpuResources {
        let names = self.setting(GPU_RESOURCES).map(GpuResources::from_text);
        names.unwrap_or_default()
    }

    /// The value of a key of the configuration, if the server reports it.
    pub(super) fn setting(&self, key: &str) -> Option<&str> {
        let mut rows = self.configuration.iter();
        rows.find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Why GPU data is missing. Findings about the server itself are no cause.
    pub(super) fn trouble(&self) -> Option<String> {
        let unseen = source::unread(&self.skipped)?;
        let is_of_data = |it: &&Finding| OF_DATA.iter().any(|code| code.id == it.code);
        let (cause, remedy) = match self.items.iter().find(is_of_data) {
            Some(cause) => (&cause.message, &cause.remedy),
            None => (&unseen.reason, &unseen.remedy),
        };
        Some(format!("GPU data cannot be read: {cause}: {remedy}"))
    }
}

pub(super) const NO_FINDINGS: &str =
    "no APIService refers to gpu-metrics-apiserver, and the server that answers has no findings";
pub(super) const INSTALL: &str = "install or upgrade gpu-metrics-apiserver";

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
    use findings::codes::{GM105, GM301};

    #[test]
    fn the_cause_of_missing_data_is_not_a_finding_about_the_server_itself() {
        let own = Finding::new(&GM105, "server", "the certificate ends");
        let away = Finding::new(&GM301, "Prometheus", "no answer").with_remedy("start it");
        let of = |items: &[Finding]| {
            let list = FindingList {
                items: items.to_vec(),
                skipped: [source::unseen("it stopped", "correct that first")].into(),
                ..FindingList::default()
            };
            list.trouble().unwrap()
        };
        let unseen = "GPU data cannot be read: it stopped: correct that first";
        let told = "GPU data cannot be read: no answer: start it";
        assert_eq!(of(std::slice::from_ref(&own)), unseen);
        assert_eq!(of(&[own, away]), told);
        assert_eq!(FindingList::default().trouble(), None);
    }

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
