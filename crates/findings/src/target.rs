//! What an HPA scales: its pods, other writers of its replicas, the GPUs it takes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::Finding;
use super::codes::{GM508, GM511, GM513};
use ::hpa::Hpa;
use apimachinery::quantity::parse_milli;
use gpu_metrics::resources::{Amount, GpuResources};

/// Names under which deployment tools write (`metadata.managedFields`). Changes by
/// kubectl are people's and may be intended.
const TOOLS: [&str; 5] = [
    "argocd",
    "kustomize-controller",
    "helm-controller",
    "flux",
    "fleetagent",
];

/// The parts of a Deployment, StatefulSet or ReplicaSet that are used here.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Workload {
    /// Its name, and the managers of its fields.
    pub metadata: ObjectMeta,
    /// Its specification.
    pub spec: WorkloadSpec,
}

/// Its `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct WorkloadSpec {
    /// Its pods.
    pub selector: LabelSelector,
    /// The template of its pods.
    pub template: PodTemplateSpec,
}

/// Amounts by resource.
type Amounts = BTreeMap<String, i64>;

/// Pods that the selector matches and that another workload owns: their values enter the
/// mean, and they count as its replicas.
#[must_use]
pub fn strangers(hpa: &Hpa, pods: &[Pod]) -> Option<Finding> {
    let target = &hpa.scaled;
    let lives = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Failed" | "Succeeded"))
    };
    let own = |pod: &&Pod| {
        let owners = pod.metadata.owner_references.iter().flatten();
        let hash = pod
            .metadata
            .labels
            .as_ref()
            .and_then(|it| it.get("pod-template-hash"));
        owners
            .filter(|it| it.controller == Some(true))
            .any(|owner| {
                let direct = owner.kind == target.kind && owner.name == target.name;
                let by_set = target.kind == "Deployment"
                    && owner.kind == "ReplicaSet"
                    && hash.is_some_and(|hash| owner.name == format!("{}-{hash}", target.name));
                direct || by_set
            })
    };
    let living = pods.iter().filter(lives).count();
    let others: Vec<&Pod> = pods.iter().filter(lives).filter(|pod| !own(pod)).collect();
    let example = others.first()?.metadata.name.as_deref().unwrap_or("?");
    let message = format!(
        "the selector of {} {} takes {living} pods, {} of them not its own (such as {example}): their values enter the mean",
        target.kind,
        target.name,
        others.len()
    );
    let remedy = "give its pods a label that no others have, and select by it (a selector cannot be changed: make the workload anew)";
    Some(Finding::new(&GM508, hpa.to_string(), message, remedy))
}

/// A deployment tool that resets the replicas with every sync.
#[must_use]
pub fn owned_replicas(hpa: &Hpa, metadata: &ObjectMeta) -> Option<Finding> {
    let fields = metadata.managed_fields.iter().flatten();
    let mut writers = fields.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|it| it.0.pointer("/f:spec/f:replicas").is_some())
    });
    let tool = writers.find_map(|entry| {
        let manager = entry.manager.as_deref()?;
        TOOLS
            .iter()
            .any(|tool| manager.starts_with(tool))
            .then_some(manager)
    })?;
    let target = &hpa.scaled;
    let message = format!(
        "{tool} owns spec.replicas of {} {}: each of its syncs undoes the scaling",
        target.kind, target.name
    );
    let remedy = "leave replicas out of the manifest (Argo CD: ignoreDifferences for /spec/replicas with RespectIgnoreDifferences)";
    Some(Finding::new(&GM511, hpa.to_string(), message, remedy))
}

fn devices<'q>(amounts: impl Iterator<Item = (&'q String, &'q String)>) -> Amounts {
    let resources = GpuResources::default();
    let of_devices = amounts.filter(|(name, _)| resources.amount(name) == Some(Amount::Devices));
    of_devices
        .filter_map(|(name, text)| Some((name.clone(), parse_milli(text)? / 1000)))
        .collect()
}

fn add(sum: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        let entry = sum.entry(name).or_default();
        *entry = entry.saturating_add(amount);
    }
}

/// GPUs that the nodes provide, by resource; cordoned nodes provide none.
#[must_use]
pub fn allocatable(nodes: &[Node]) -> Amounts {
    let mut sum = Amounts::new();
    for node in nodes {
        let cordoned = node.spec.as_ref().and_then(|it| it.unschedulable) == Some(true);
        let amounts = node.status.as_ref().and_then(|it| it.allocatable.as_ref());
        if let (false, Some(amounts)) = (cordoned, amounts) {
            add(
                &mut sum,
                devices(amounts.iter().map(|(name, it)| (name, &it.0))),
            );
        }
    }
    sum
}

/// More replicas than GPUs.
#[must_use]
pub fn capacity(
    hpa: &Hpa,
    template: &PodTemplateSpec,
    allocatable: &Amounts,
) -> Option<Finding> {
    let most = i64::from(hpa.max);
    let mut each = Amounts::new();
    let containers = template.spec.as_ref().map(|it| it.containers.as_slice());
    for container in containers.unwrap_or_default() {
        let limits = container
            .resources
            .as_ref()
            .and_then(|it| it.limits.as_ref());
        add(
            &mut each,
            devices(limits.into_iter().flatten().map(|(name, it)| (name, &it.0))),
        );
    }
    let short = each.into_iter().find_map(|(name, each)| {
        let there = allocatable.get(&name).copied().unwrap_or(0);
        let needed = each.saturating_mul(most);
        (needed > there).then(|| {
            format!("{most} replicas of {each} {name} are {needed}, and the nodes have {there}")
        })
    })?;
    let remedy =
        "set a maxReplicas that fits; nothing, where nodes are added when pods wait for them";
    Some(Finding::new(&GM513, hpa.to_string(), short, remedy))
}
