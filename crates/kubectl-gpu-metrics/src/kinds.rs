//! Kinds of objects by any name that kubectl accepts.

use apimachinery::kinds::{Kind, Kinds};
use cluster_checks::paths::within;
use cluster_state::error::CallError;
use cluster_state::served;

use super::Failure;
use super::cluster::Cluster;

/// Group and version, plural, kind and short name of the kinds of every cluster.
const KNOWN: [(&str, &str, &str, &str); 11] = [
    ("/v1", "pods", "Pod", "po"),
    ("/v1", "namespaces", "Namespace", "ns"),
    ("/v1", "nodes", "Node", "no"),
    ("/v1", "services", "Service", "svc"),
    ("apps/v1", "deployments", "Deployment", "deploy"),
    ("apps/v1", "statefulsets", "StatefulSet", "sts"),
    ("apps/v1", "daemonsets", "DaemonSet", "ds"),
    ("apps/v1", "replicasets", "ReplicaSet", "rs"),
    ("batch/v1", "jobs", "Job", "job"),
    ("batch/v1", "cronjobs", "CronJob", "cj"),
    (
        "autoscaling/v2",
        AUTOSCALERS,
        "HorizontalPodAutoscaler",
        "hpa",
    ),
];

pub(super) const AUTOSCALERS: &str = "horizontalpodautoscalers";

/// The kinds that every cluster has.
pub(super) fn known() -> Kinds {
    let kind = |(of, plural, kind, short): (&str, &str, &str, &str)| {
        let (group, version) = of.split_once('/').unwrap_or(("", of));
        Kind {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            singular: kind.to_lowercase().into(),
            short: vec![short.into()],
            kind: kind.into(),
            namespaced: !["namespaces", "nodes"].contains(&plural),
            watchable: true,
        }
    };
    Kinds::new(KNOWN.map(kind).to_vec())
}

/// The resource of a kind that every cluster has: `deployments.apps`.
pub(super) fn resource(kind: &str) -> Option<String> {
    let kind = known().of_request(kind).map(Kind::resource);
    kind.map(|it| it.to_string())
}

/// The path of the objects of a kind.
pub(super) fn path(kind: &Kind, namespace: Option<&str>) -> String {
    let root = match &*kind.group {
        "" => "/api/v1".to_owned(),
        _ => format!("/apis/{}", kind.api_version()),
    };
    format!("{root}/{}{}", within(namespace), kind.plural)
}

/// The kind with this name: plural, singular, short name or kind, with or without its
/// group. Kinds that not every cluster has are looked up in discovery.
pub(super) async fn find(cluster: &Cluster, word: &str) -> Result<Kind, Failure> {
    if let Some(kind) = known().of_request(word) {
        return Ok(kind.clone());
    }
    let served = match served::kinds(&cluster.client).await {
        Ok(kinds) => kinds,
        // A server that serves only metrics has no such list.
        Err(CallError::NotFound(_)) => Kinds::default(),
        Err(error) => return Err(Failure::Failed(error.to_string())),
    };
    let found = served.of_request(word).cloned();
    found.ok_or_else(|| Failure::Usage(format!("this cluster has no kind {word}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_all_the_names_that_kubectl_takes() {
        for (words, resource) in [
            ("po pod pods Pod PODS", "pods"),
            (
                "deploy deployment Deployment deployments.apps deploy.apps",
                "deployments.apps",
            ),
            ("ns namespace", "namespaces"),
            ("no node", "nodes"),
            ("job jobs.batch", "jobs.batch"),
            ("hpa HPA", "horizontalpodautoscalers.autoscaling"),
        ] {
            for word in words.split(' ') {
                let kind = known().of_request(word).map(Kind::resource);
                assert_eq!(kind.as_deref(), Some(resource), "{word}");
            }
        }
        assert_eq!(known().of_request("rayclusters.ray.io"), None);
    }
}
