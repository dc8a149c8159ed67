//! The controller's input for one autoscaler, read with the user's rights.

use k8s_openapi::api::autoscaling::v1::Scale as ApiScale;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::core::Selector;
use serde::de::DeserializeOwned;

use apimachinery::kinds::Kind;
use cluster_state::error::CallError;
use cluster_state::startup::startup;
use gpu_metrics::inventory::Startup;
use hpa::hpa::MetricSource;
use hpa::{ControllerFlags, Hpa, MetricsAnswer, ScaledPod, TargetScale};

use crate::Failure;
use crate::cluster::Cluster;
use crate::explain::failure;
use crate::kinds;
use crate::values::{EXTERNAL, Item, List, of_object};
use cluster_checks::paths::{self, encode};

use super::FlagArgs;

/// An autoscaler with its status, and what its controller would read now.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) hpa: Hpa,
    /// `Err`: why the target or its pods cannot be read.
    pub(super) inputs: Result<Inputs, String>,
    pub(super) flags: ControllerFlags,
}

#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) scale: TargetScale,
    pub(super) pods: Vec<ScaledPod>,
    /// The pods that have not been Ready since their containers started.
    pub(super) starting: Vec<String>,
    pub(super) answers: Vec<MetricsAnswer>,
}

impl Reading {
    pub(super) async fn of(
        cluster: &Cluster,
        (namespace, name): (&str, &str),
        flags: &FlagArgs,
    ) -> Result<Self, Failure> {
        let (hpa, flags) = autoscaler(cluster, (namespace, name), flags).await?;
        Ok(Self {
            inputs: inputs(cluster, namespace, &hpa).await,
            flags,
            hpa,
        })
    }

    /// Whether the controller wrote that stabilisation holds the replicas.
    pub(super) fn is_stabilised(&self) -> bool {
        let reasons = ["ScaleDownStabilized", "ScaleUpStabilized"];
        reasons
            .iter()
            .any(|it| self.hpa.status.message(it).is_some())
    }
}

/// An autoscaler with its status, and the flags of its controller.
pub(super) async fn autoscaler(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    flags: &FlagArgs,
) -> Result<(Hpa, ControllerFlags), Failure> {
    let base = paths::autoscalers(Some(namespace));
    let object = cluster.read(&format!("{base}/{}", encode(name))).await;
    let object: HorizontalPodAutoscaler = object.map_err(|error| match error {
        CallError::NotFound(_) => Failure::Failed(format!(
            "HorizontalPodAutoscaler {name} does not exist in namespace {namespace}: give -n \
             NAMESPACE or NAMESPACE/NAME"
        )),
        error => failure(&error),
    })?;
    let hpa = Hpa::try_from(&object).map_err(Failure::Failed)?;
    let minor = paths::minor_version(&cluster.client).await;
    Ok((hpa, flags.or_defaults(minor.unwrap_or(hpa::NEWEST))))
}

async fn inputs(cluster: &Cluster, namespace: &str, hpa: &Hpa) -> Result<Inputs, String> {
    let version = hpa.scaled.api_version.as_deref();
    let kind = kind(cluster, version, &hpa.scaled.kind).await?;
    let list = kinds::path(&kind, Some(namespace));
    let path = format!("{list}/{}", encode(&hpa.scaled.name));
    let scale: ApiScale = read(cluster, &format!("{path}/scale")).await?;
    let status = scale.status.unwrap_or_default();
    let selector = status.selector.filter(|it| !it.is_empty());
    let selector = selector.ok_or("the scale of the target has no selector")?;
    let pods: List<ApiPod> = read(cluster, &paths::pods(namespace, &selector)).await?;
    let mut answers = Vec::new();
    for metric in &hpa.metrics {
        let answer = answer(cluster, namespace, &selector, &metric.source).await;
        answers.push(answer.unwrap_or_else(MetricsAnswer::Failed));
    }
    Ok(Inputs {
        scale: TargetScale {
            spec_replicas: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
            status_replicas: status.replicas,
        },
        pods: pods.items.iter().map(ScaledPod::from).collect(),
        starting: pods.items.into_iter().filter_map(starting).collect(),
        answers,
    })
}

/// The name of a pod that has not been Ready since its containers started.
fn starting(pod: ApiPod) -> Option<String> {
    let status = pod.status?;
    let conditions = status.conditions.unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    (startup(&conditions, &containers) == Startup::Starting).then_some(pod.metadata.name)?
}

async fn read<T: DeserializeOwned>(cluster: &Cluster, path: &str) -> Result<T, String> {
    let read = cluster.read(path).await;
    read.map_err(|error: CallError| error.to_string())
}

/// A kind by its group and name: the controller takes any version.
async fn kind(cluster: &Cluster, version: Option<&str>, kind: &str) -> Result<Kind, String> {
    let group = version.and_then(|it| it.split_once('/'));
    let found = match group {
        Some((group, _)) => kinds::find(cluster, &format!("{kind}.{group}")).await,
        None => kinds::find(cluster, kind).await,
    };
    found.map_err(|failure| failure.to_string())
}

/// The value of a metric, requested as the controller does.
async fn answer(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    source: &MetricSource,
) -> Result<MetricsAnswer, String> {
    let resource = match source {
        MetricSource::Resource { .. } => return Ok(MetricsAnswer::NotAsked),
        MetricSource::Object { described, .. } => {
            let version = described.api_version.as_deref();
            let kind = kind(cluster, version, &described.kind).await?;
            kind.resource().to_string()
        }
        MetricSource::Pods { .. } | MetricSource::External { .. } => String::new(),
    };
    let path = question(source, namespace, selector, &resource)?;
    let List::<Item> { items } = read(cluster, &path).await?;
    if !matches!(source, MetricSource::Pods { .. }) {
        let values = items.iter().map(|item| item.value.0);
        return Ok(MetricsAnswer::Values(values.collect()));
    }
    let values = items.into_iter();
    let values = values.filter_map(|it| Some((it.described_object?.name, it.value.0)));
    Ok(MetricsAnswer::Pods(values.collect()))
}

/// The controller's question for a metric. A Namespace is that of the autoscaler, whichever
/// is named, and every other object is one in the namespace, also a Node
/// (`pkg/controller/podautoscaler/metrics/client.go`).
fn question(
    source: &MetricSource,
    namespace: &str,
    selector: &str,
    resource: &str,
) -> Result<String, String> {
    // No selector selects all series.
    let series = Selector::try_from(source.selector().cloned().unwrap_or_default());
    let series = encode(&series.map_err(|error| error.to_string())?.to_string());
    let (metric, within) = (source.name(), Some(namespace));
    Ok(match source {
        MetricSource::External { .. } => {
            // The controller requests names in lower case.
            let (place, metric) = (encode(namespace), encode(&metric.to_lowercase()));
            format!("{EXTERNAL}/{place}/{metric}?labelSelector={series}")
        }
        MetricSource::Object { described, .. } => {
            let path = match resource {
                "namespaces" => of_object((resource, None), namespace, metric),
                _ => of_object((resource, within), &described.name, metric),
            };
            format!("{path}?metricLabelSelector={series}")
        }
        MetricSource::Pods { .. } | MetricSource::Resource { .. } => {
            let path = of_object(("pods", within), "*", metric);
            let pods = encode(selector);
            format!("{path}?labelSelector={pods}&metricLabelSelector={series}")
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What a real kube-controller-manager wrote and asked (`make recorded`).
    const RECORDED: &str = include_str!("../../../../hpa/tests/recorded.json");

    #[test]
    fn each_question_is_that_of_the_controller() {
        let recorded: Value = serde_json::from_str(RECORDED).unwrap();
        let mut questions = 0;
        for situation in recorded["situations"].as_array().unwrap() {
            let object = json!({"metadata": {"name": "a"}, "spec": situation["spec"]});
            let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
            let hpa = Hpa::try_from(&object).unwrap();
            let asks = situation["asks"].as_array().into_iter().flatten();
            for (metric, asked) in hpa.metrics.iter().zip(asks) {
                let resource = match &metric.source {
                    MetricSource::Resource { .. } => continue,
                    MetricSource::Object { described, .. } => match &*described.kind {
                        "Target" => "targets.example.com".to_owned(),
                        kind => kind.to_lowercase() + "s",
                    },
                    _ => String::new(),
                };
                let namespace = situation["namespace"].as_str().unwrap();
                let path = question(&metric.source, namespace, "app=target", &resource).unwrap();
                // An empty selector is left out by the controller.
                let path = path.replace("&metricLabelSelector=", "");
                let path = path.replace("?metricLabelSelector=", "");
                let path = path.trim_end_matches("?labelSelector=").replace('*', "%2A");
                assert_eq!(path, asked.as_str().unwrap(), "{}", situation["name"]);
                questions += 1;
            }
        }
        assert!(questions > 100);
    }
}
