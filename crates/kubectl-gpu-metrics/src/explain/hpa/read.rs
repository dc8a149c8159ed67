//! The controller's input for one autoscaler, read with the user's rights.

use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::autoscaling::v1::Scale as ApiScale;
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use serde::de::DeserializeOwned;

use apimachinery::labels::Labels;
use apimachinery::selector::Selector as Parsed;
use cluster_state::error::CallError;
use findings::names::hint;
use hpa::{ControllerFlags, Hpa, MetricsAnswer, ScaledPod, Selection, TargetScale};

use crate::Failure;
use crate::cluster::{self, Cluster, encode, within};
use crate::explain::failure;
use crate::values::List;

use super::FlagArgs;
use super::values::{answer, plural, root};

/// How many scales of other autoscalers' targets are read concurrently.
const SIDE_BY_SIDE: usize = 8;

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) hpa: Hpa,
    pub(super) scale: Result<TargetScale, String>,
    pub(super) selection: Selection,
    pub(super) pods: Vec<ScaledPod>,
    pub(super) answers: Vec<MetricsAnswer>,
    pub(super) flags: ControllerFlags,
}

impl Reading {
    pub(super) async fn of(
        cluster: &Cluster,
        (namespace, name): (&str, &str),
        flags: &FlagArgs,
    ) -> Result<Self, Failure> {
        let base = cluster::autoscalers(Some(namespace));
        let object = autoscaler(cluster, &base, name).await?;
        let hpa = Hpa::try_from(&object).map_err(|error| Failure::Failed(error.to_string()))?;
        let minor = cluster::minor_version(&cluster.client).await;
        let flags = flags.or_defaults(minor.unwrap_or(hpa::NEWEST));
        let others: List<HorizontalPodAutoscaler> = read(cluster, &base).await?;
        let (scale, selector) = match target(cluster, namespace, &hpa.scaled).await {
            Ok((scale, selector)) => (Ok(scale), selector),
            Err(error) => (Err(told(error)?), String::new()),
        };
        let mut reading = Self {
            hpa,
            scale,
            selection: Selection::Missing,
            pods: Vec::new(),
            answers: Vec::new(),
            flags,
        };
        if selector.is_empty() {
            return Ok(reading);
        }
        let path = cluster::pods(namespace, &selector);
        let pods: List<ApiPod> = read(cluster, &path).await?;
        reading.pods = pods.items.iter().map(ScaledPod::from).collect();
        reading.selection =
            selection(cluster, namespace, &selector, &pods.items, &others.items).await;
        for metric in &reading.hpa.metrics {
            let answer = answer((cluster, namespace), &selector, &metric.source).await;
            reading.answers.push(match answer {
                Ok(answer) => answer,
                Err(error) => MetricsAnswer::Failed(told(error)?),
            });
        }
        Ok(reading)
    }
}

async fn read<T: DeserializeOwned>(cluster: &Cluster, path: &str) -> Result<T, Failure> {
    let read = cluster.read(path).await;
    read.map_err(|error| failure(&error))
}

/// The error that the controller gets too. A right that only the user lacks tells nothing
/// of the controller.
fn told(error: CallError) -> Result<String, Failure> {
    match error {
        CallError::NotFound(said) => Ok(said),
        CallError::Forbidden { .. } | CallError::Unauthorized(..) => Err(failure(&error)),
        error => Ok(error.to_string()),
    }
}

async fn autoscaler(
    cluster: &Cluster,
    base: &str,
    name: &str,
) -> Result<HorizontalPodAutoscaler, Failure> {
    let read = cluster.read(&format!("{base}/{}", encode(name))).await;
    let Err(CallError::NotFound(said)) = read else {
        return read.map_err(|error| failure(&error));
    };
    let all = cluster.read::<List<HorizontalPodAutoscaler>>(base).await;
    Err(Failure::Failed(match all {
        Ok(List { items }) => {
            let names = items.iter().filter_map(|it| it.metadata.name.as_deref());
            format!("{said}{}", hint(name, names))
        }
        Err(CallError::NotFound(_)) => {
            "this server serves metrics only (demo): it has no HorizontalPodAutoscalers; \
             name a cluster by --kubeconfig or --context"
                .to_owned()
        }
        Err(_) => said,
    }))
}

/// The scale of an autoscaler's target, and the selector of its pods.
async fn target(
    cluster: &Cluster,
    namespace: &str,
    target: &CrossVersionObjectReference,
) -> Result<(TargetScale, String), CallError> {
    let version = target.api_version.as_deref().unwrap_or("v1");
    let resource = plural(cluster, version, &target.kind).await?;
    let (root, place, name) = (root(version), within(Some(namespace)), encode(&target.name));
    let path = format!("{root}/{place}{resource}/{name}/scale");
    let scale: ApiScale = cluster.read(&path).await?;
    let status = scale.status.unwrap_or_default();
    let replicas = TargetScale {
        spec_replicas: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
        status_replicas: status.replicas,
    };
    Ok((replicas, status.selector.unwrap_or_default()))
}

/// Whether other autoscalers select the same pods.
async fn selection(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    pods: &[ApiPod],
    all: &[HorizontalPodAutoscaler],
) -> Selection {
    if let Err(error) = Parsed::parse(selector) {
        return Selection::Invalid(error.to_string());
    }
    let of_pod = |pod: &ApiPod| {
        let labels = pod.metadata.labels.iter().flatten();
        Labels::from_pairs(labels.map(|(name, value)| (name.as_str(), value.as_str())))
    };
    let labels: Vec<Labels> = pods.iter().map(of_pod).collect();
    let labels = &labels;
    let reads = all.iter().map(|other| async move {
        let scaled = &other.spec.as_ref()?.scale_target_ref;
        let (_, selector) = target(cluster, namespace, scaled).await.ok()?;
        let theirs = Parsed::parse(&selector).ok()?;
        let takes = !selector.is_empty() && labels.iter().any(|labels| theirs.matches(labels));
        let name = other.metadata.name.clone().unwrap_or_default();
        takes.then(|| format!("{namespace}/{name}"))
    });
    let reads: Vec<_> = reads.collect();
    let reads = stream::iter(reads).buffered(SIDE_BY_SIDE);
    let autoscalers: Vec<_> = reads.filter_map(std::future::ready).collect().await;
    match autoscalers.len() {
        0 | 1 => Selection::Clear,
        _ => Selection::Ambiguous {
            selector: selector.to_owned(),
            autoscalers,
        },
    }
}
