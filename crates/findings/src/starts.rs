//! Replicas that cannot start: the scheduler finds no node for them, or they cannot be created.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Finding;
use super::codes::GM517;
use super::names::listed;
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::devices::DevicesOf;
use gpu_metrics::resources::GpuResources;

/// Seconds that a pod may wait for a node.
const PATIENCE: i64 = 120;

/// Pods with GPUs for which the scheduler has found no node for two minutes, by their owner.
/// `now` is the cluster's time.
#[must_use]
pub fn unscheduled(pods: &[Pod], gpus: &GpuResources, now: Timestamp) -> Vec<Finding> {
    let mut owners: BTreeMap<String, Vec<(i64, &str)>> = BTreeMap::new();
    for pod in pods {
        let has_gpus = pod.spec.as_ref().is_some_and(|it| has_gpus(it, gpus));
        let waits = waits(pod, now).filter(|(seconds, _)| has_gpus && *seconds >= PATIENCE);
        if let Some(waits) = waits {
            let (kind, name) = owner(pod).unwrap_or(("Pod", name(&pod.metadata)));
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let of_owner = owners.entry(format!("{kind} {namespace}/{name}"));
            of_owner.or_default().push(waits);
        }
    }
    let found = owners.into_iter().filter_map(|(object, waiting)| {
        let (seconds, told) = waiting.iter().max_by_key(|(seconds, _)| seconds)?;
        let longest = format_duration(Duration::from_secs(seconds.unsigned_abs()));
        let message = format!(
            "{} replicas cannot start: the scheduler has found no node for up to {longest}: {told}",
            waiting.len()
        );
        Some(Finding::new(&GM517, object, message))
    });
    found.collect()
}

/// Whether a pod requests GPUs or claims devices.
fn has_gpus(pod: &PodSpec, gpus: &GpuResources) -> bool {
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    let limits = containers.flat_map(|it| it.resources.as_ref()?.limits.as_ref());
    let limits = limits.flatten();
    let amounts = limits.map(|(name, amount)| (&**name, amount.0.as_str()));
    pod.resource_claims.is_some() || !gpus.among(amounts).is_empty()
}

/// Kind and name of the workload that owns a pod; for a ReplicaSet, of its Deployment.
fn owner(pod: &Pod) -> Option<(&str, &str)> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|it| it.controller == Some(true))?;
    let labels = pod.metadata.labels.as_ref();
    let hash = labels.and_then(|it| it.get("pod-template-hash"));
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'));
    Some(match deployment {
        Some(deployment) if owner.kind == "ReplicaSet" => ("Deployment", deployment),
        _ => (&owner.kind, &owner.name),
    })
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or("?")
}

/// How long a pod has waited for a node, in seconds, and the scheduler's text.
fn waits(pod: &Pod, now: Timestamp) -> Option<(i64, &str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let unscheduled = |it: &&PodCondition| {
        it.type_ == "PodScheduled"
            && it.status == "False"
            && it.reason.as_deref() == Some("Unschedulable")
    };
    let condition = conditions.iter().find(unscheduled)?;
    let since = condition.last_transition_time.as_ref()?.0.as_second();
    Some((
        now.secs() - since,
        condition.message.as_deref().unwrap_or("?"),
    ))
}

/// A Deployment whose pods cannot be created, for example beyond a quota.
#[must_use]
pub fn not_created(deployment: &Deployment) -> Option<Finding> {
    let status = deployment.status.as_ref()?;
    let conditions = status.conditions.as_ref()?;
    let failure = |type_: &str, status: &str| type_ == "ReplicaFailure" && status == "True";
    let failure = conditions
        .iter()
        .find(|it| failure(&it.type_, &it.status))?;
    let wanted = deployment.spec.as_ref()?.replicas.unwrap_or(1);
    let missing = wanted.saturating_sub(status.replicas.unwrap_or(0));
    let metadata = &deployment.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let object = format!("Deployment {namespace}/{}", name(metadata));
    let told = failure.message.as_deref().unwrap_or("?");
    let message = format!("{missing} of {wanted} replicas cannot start: {told}");
    let remedy =
        "raise the quota or correct what the message names, or lower maxReplicas of the HPA";
    Some(Finding::new(&GM517, object, message).with_remedy(remedy))
}

/// The holders of idle GPUs, the most first: `18 GPUs that pods hold are idle: …`. `pods` are the
/// rows of pods of the server's list of devices.
#[must_use]
pub fn idle_holders(pods: &[DevicesOf]) -> Option<String> {
    let mut holders: BTreeMap<String, f64> = BTreeMap::new();
    for pod in pods {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        let own = format!("pods/{}", pod.name);
        let workload = pod.workloads.first().unwrap_or(&own);
        let idle = pod.values.get("gpu_idle_count");
        *holders
            .entry(format!("{namespace} {workload}"))
            .or_default() += idle.unwrap_or(&0.0);
    }
    let mut holders: Vec<_> = holders
        .into_iter()
        .filter(|(_, idle)| *idle >= 1.0)
        .collect();
    holders.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let sum: f64 = holders.iter().map(|(_, idle)| idle).sum();
    let named = holders
        .iter()
        .map(|(holder, idle)| format!("{idle:.0} of {holder}"));
    (sum >= 1.0).then(|| format!("{sum:.0} GPUs that pods hold are idle: {}", listed(named)))
}
