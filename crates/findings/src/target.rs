//! The target of an HPA: its pods, and other writers of its replicas.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Finding;
use super::codes::GM511;
use ::hpa::Hpa;
use gpu_metrics::resources::{GpuRequest, GpuResources};

/// Names of deployment tools in `metadata.managedFields`. kubectl is not one of them: its
/// changes are made by hand and may be intended.
const TOOLS: [&str; 5] = [
    "argocd",
    "kustomize-controller",
    "helm-controller",
    "flux",
    "fleetagent",
];

/// API version, kind and name of the workload that owns a pod; for a ReplicaSet, of its
/// Deployment.
pub(super) fn owner(pod: &Pod) -> Option<(&str, &str, &str)> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|it| it.controller == Some(true))?;
    let (version, kind, name) = (&*owner.api_version, &*owner.kind, &*owner.name);
    let labels = pod.metadata.labels.as_ref();
    let hash = labels.and_then(|it| it.get("pod-template-hash"));
    let deployment = hash.and_then(|hash| name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    Some(match deployment {
        Some(deployment) if kind == "ReplicaSet" => (version, "Deployment", deployment),
        _ => (version, kind, name),
    })
}

/// A deployment tool that resets the replicas with every sync.
#[must_use]
pub fn owned_replicas(hpa: &Hpa, metadata: &ObjectMeta) -> Option<Finding> {
    let fields = metadata.managed_fields.iter().flatten();
    let mut writers = fields.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|it| it.0.pointer("/f:spec/f:replicas").is_some())
    });
    let is_tool = |manager: &&str| TOOLS.iter().any(|tool| manager.starts_with(tool));
    let tool = writers.find_map(|entry| entry.manager.as_deref().filter(is_tool))?;
    let target = &hpa.scaled;
    let message = format!(
        "{tool} owns spec.replicas of {} {}: each of its syncs undoes the scaling",
        target.kind, target.name
    );
    let remedy = "leave replicas out of the manifest (Argo CD: ignoreDifferences for /spec/replicas with RespectIgnoreDifferences)";
    Some(Finding::new(&GM511, hpa.to_string(), message, remedy))
}

/// The GPUs that a pod requests.
pub(super) fn requested<'p>(gpus: &GpuResources, pod: &'p PodSpec) -> GpuRequest<'p> {
    let amounts = |container: &'p Container| {
        let all = container.resources.iter();
        let all = all.flat_map(|it| [&it.limits, &it.requests]).flatten();
        all.flat_map(texts)
    };
    let init = pod.init_containers.iter().flatten();
    let init = init.map(|it| (it.restart_policy.as_deref() == Some("Always"), amounts(it)));
    gpus.of_pod(init, pod.containers.iter().map(amounts))
}

/// The GPUs that a node provides.
#[must_use]
pub fn provided<'n>(gpus: &GpuResources, node: &'n Node) -> GpuRequest<'n> {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|it| it.allocatable.as_ref());
    gpus.among(allocatable.into_iter().flat_map(texts))
}

fn texts(amounts: &BTreeMap<String, Quantity>) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let amounts = amounts.iter();
    amounts.map(|(name, quantity)| (name.as_str(), quantity.0.as_str().into()))
}
