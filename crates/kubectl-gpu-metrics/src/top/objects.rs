//! Objects of kube-apiserver, which the metrics server does not list: the nodes with GPUs,
//! and the autoscalers of workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
};
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;
use serde::de::DeserializeOwned;

use cluster_state::error::CallError;
use findings::target::provided;
use gpu_metrics::resources::GpuResources;
use hpa::Hpa;
use hpa::hpa::{MetricSource, MetricTarget};

use crate::Failure;
use crate::cluster::Cluster;
use crate::table::{count, shown, whole};
use crate::values::{FindingList, List, grouped};
use cluster_checks::paths::autoscalers;

use super::{TopArgs, What};

#[derive(Debug, Default)]
pub(crate) struct ClusterObjects {
    /// Nodes with allocatable GPUs.
    pub(super) nodes: BTreeSet<String>,
    /// The autoscalers by the namespace and name (`deployments.apps/NAME`) of their target.
    pub(crate) hpas: BTreeMap<(String, String), Vec<HpaCell>>,
    /// The objects that could not be read, and why.
    pub(crate) notes: BTreeSet<String>,
}

/// An autoscaler with its first metric, for tables and JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HpaCell {
    pub(crate) name: String,
    pub(crate) metric: Option<String>,
    current: Option<f64>,
    target: Option<f64>,
    /// Whether value and target are percentages of the pods' requests.
    percent: bool,
    /// The current replicas.
    pub(crate) replicas: Option<i32>,
    pub(crate) desired: Option<i32>,
    pub(crate) min: i32,
    pub(crate) max: i32,
    pub(crate) conditions: Vec<HorizontalPodAutoscalerCondition>,
    pub(crate) others: usize,
    /// Whether the first metric has a value for each pod.
    #[serde(skip)]
    pub(crate) of_pods: bool,
}

impl HpaCell {
    pub(crate) fn of(hpa: Hpa) -> Self {
        let first = hpa.metrics.first();
        let target = first.map(|metric| metric.target);
        let current = hpa.status.values.first();
        Self {
            metric: first.map(|metric| metric.source.name().to_owned()),
            current: current.copied().flatten(),
            target: target.map(MetricTarget::number),
            percent: matches!(target, Some(MetricTarget::Utilization(_))),
            replicas: hpa.status.replicas,
            desired: hpa.status.desired,
            min: hpa.min,
            max: hpa.max,
            others: hpa.metrics.len().saturating_sub(1),
            of_pods: first.is_some_and(|it| matches!(it.source, MetricSource::Pods { .. })),
            name: hpa.name,
            conditions: hpa.status.conditions,
        }
    }

    pub(crate) fn sides(&self) -> [String; 2] {
        let unit = if self.percent { "%" } else { "" };
        let side = |number| shown(number, |number| format!("{}{unit}", whole(number)));
        [side(self.current), side(self.target)]
    }
}

impl fmt::Display for HpaCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [current, target] = self.sides();
        let desired = count(self.desired);
        write!(f, "{current}/{target} → {desired}/{}", self.max)
    }
}

impl ClusterObjects {
    pub(crate) async fn read(args: &TopArgs, cluster: &Cluster) -> Result<Self, Failure> {
        let mut objects = Self::default();
        if args.what.is_namespaced() {
            let path = autoscalers(args.namespace(cluster));
            objects.autoscalers(cluster, &path).await?;
        } else if args.what != What::Namespaces {
            // The default GPU resources apply if the findings cannot be read.
            let said = FindingList::read(cluster).await;
            let gpus = said.map_or_else(|_| GpuResources::default(), |it| it.gpu_resources());
            let path = format!("/api/v1/nodes?{}", args.labels());
            let mut nodes: Vec<Node> = objects.list(cluster, &path).await?;
            nodes.retain(|node| !provided(&gpus, node).is_empty());
            let names = nodes.into_iter().filter_map(|node| node.metadata.name);
            objects.nodes = names.collect();
        }
        Ok(objects)
    }

    async fn autoscalers(&mut self, cluster: &Cluster, path: &str) -> Result<(), Failure> {
        let objects: Vec<HorizontalPodAutoscaler> = self.list(cluster, path).await?;
        for object in objects {
            match Hpa::try_from(&object) {
                Ok(hpa) => {
                    let of_target = self.hpas.entry(target(&hpa)).or_default();
                    of_target.push(HpaCell::of(hpa));
                }
                Err(error) => {
                    let name = object.metadata.name.unwrap_or_default();
                    let note = format!("HorizontalPodAutoscaler {name}: {error}");
                    self.notes.insert(note);
                }
            }
        }
        Ok(())
    }

    /// Reads a list. It is empty if the API does not exist, or if access is forbidden,
    /// which adds a note.
    async fn list<T: DeserializeOwned>(
        &mut self,
        cluster: &Cluster,
        path: &str,
    ) -> Result<Vec<T>, Failure> {
        match cluster.read::<List<T>>(path).await {
            Ok(list) => Ok(list.items),
            Err(CallError::NotFound(_)) => Ok(Vec::new()),
            Err(CallError::Forbidden { text, .. }) => {
                self.notes.insert(text);
                Ok(Vec::new())
            }
            Err(error) => Err(Failure::Failed(error.to_string())),
        }
    }

    /// The autoscalers of workloads: `deployments.apps/NAME`.
    pub(super) fn of<'n>(
        &self,
        namespace: &str,
        workloads: impl IntoIterator<Item = &'n String>,
    ) -> Vec<HpaCell> {
        let workloads = workloads.into_iter();
        let hpas = workloads.filter_map(|it| self.hpas.get(&(namespace.to_owned(), it.clone())));
        hpas.flatten().cloned().collect()
    }
}

/// The namespace and the name (`deployments.apps/NAME`) of the workload that an autoscaler
/// scales. The plurals of all workloads are regular.
fn target(hpa: &Hpa) -> (String, String) {
    let kind = hpa.scaled.kind.to_lowercase();
    let version = hpa.scaled.api_version.as_deref().unwrap_or_default();
    let resource = grouped(version, &format!("{kind}s"));
    let workload = format!("{resource}/{}", hpa.scaled.name);
    (hpa.namespace.clone(), workload)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_has_the_autoscalers_of_its_workloads() {
        let hpa = |name: &str, status: serde_json::Value| {
            let object = json!({
                "metadata": {"name": name, "namespace": "ml"},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}, "maxReplicas": 8,
                    "metrics": [{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"}}}],
                },
                "status": status,
            });
            let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
            let hpa = Hpa::try_from(&object).unwrap();
            (target(&hpa), HpaCell::of(hpa))
        };
        let (of, never) = hpa("h", json!({"desiredReplicas": 0, "currentMetrics": null}));
        assert_eq!(never.to_string(), "–/50 → –/8");
        assert_eq!(never.metric.as_deref(), Some("m"));
        let (_, failing) = hpa(
            "h",
            json!({
                "desiredReplicas": 0, "currentMetrics": [{"type": ""}],
                "conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric"}],
            }),
        );
        assert_eq!(failing.to_string(), never.to_string());
        let (_, other) = hpa(
            "i",
            json!({
                "desiredReplicas": 4,
                "currentMetrics": [{"type": "Pods", "pods": {"current": {"averageValue": "62500m"}}}],
            }),
        );
        assert_eq!(other.to_string(), "62.5/50 → 4/8");
        let objects = ClusterObjects {
            hpas: [(of, vec![never, other])].into(),
            ..ClusterObjects::default()
        };
        let owners = ["replicasets.apps/train-5f", "deployments.apps/train"].map(str::to_owned);
        assert_eq!(objects.of("ml", &owners).len(), 2);
        assert!(objects.of("other", &owners).is_empty());
    }
}
