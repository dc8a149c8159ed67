//! The controller's input for one autoscaler, read with the user's rights.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::autoscaling::v1::Scale as ApiScale;
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::Selector;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use apimachinery::duration::parse_duration;
use apimachinery::labels::Labels;
use apimachinery::selector::Selector as Parsed;
use apimachinery::time::Timestamp;
use cluster_state::error::CallError;
use findings::names::hint;
use hpa::hpa::MetricSource;
use hpa::pods::PodMetric;
use hpa::ratio::Milli;
use hpa::{ControllerFlags, Hpa, MetricsAnswer, ScaledPod, Selection, TargetScale};

use crate::Failure;
use crate::cluster::Cluster;
use crate::explain::failure;
use crate::kinds;
use crate::values::{EXTERNAL, Item, List, Named, RESOURCE, grouped, of_object};
use cluster_checks::paths::{self, encode, within};

use super::FlagArgs;

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
        let base = paths::autoscalers(Some(namespace));
        let object = autoscaler(cluster, &base, name).await?;
        let hpa = Hpa::try_from(&object).map_err(|error| Failure::Failed(error.to_string()))?;
        let minor = paths::minor_version(&cluster.client).await;
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
        let path = paths::pods(namespace, &selector);
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

/// The error, if the controller gets it too. If only the user lacks a right, the
/// controller's answer is unknown, and the command fails.
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

/// The window of a metric without one, as in the controller's client
/// (`pkg/controller/podautoscaler/metrics/client.go`).
const NO_WINDOW: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct PodUse {
    metadata: Named,
    timestamp: String,
    window: String,
    containers: Vec<ContainerUse>,
}

#[derive(Deserialize)]
struct ContainerUse {
    name: String,
    usage: BTreeMap<String, Milli>,
}

/// The value of a metric, requested as the controller does.
async fn answer(
    (cluster, namespace): (&Cluster, &str),
    selector: &str,
    source: &MetricSource,
) -> Result<MetricsAnswer, CallError> {
    // No selector selects all series.
    let series = Selector::try_from(source.selector().cloned().unwrap_or_default());
    let series = match series {
        Ok(series) => encode(&series.to_string()),
        Err(error) => return Ok(MetricsAnswer::Failed(error.to_string())),
    };
    match source {
        MetricSource::Pods { metric, .. } => {
            let path = of_object(("pods", Some(namespace)), "*", metric);
            let pods = encode(selector);
            let path = format!("{path}?labelSelector={pods}&metricLabelSelector={series}");
            of_pods(cluster, &path).await
        }
        MetricSource::Object {
            metric,
            version,
            kind,
            name,
            ..
        } => {
            let version = version.as_deref().unwrap_or("v1");
            let plural = plural(cluster, version, kind).await?;
            let resource = grouped(version, &plural);
            let namespace = (resource != "nodes").then_some(namespace);
            let path = of_object((&resource, namespace), name, metric);
            of_values(cluster, &format!("{path}?metricLabelSelector={series}")).await
        }
        MetricSource::External { metric, .. } => {
            // The controller requests names in lower case.
            let metric = encode(&metric.to_lowercase());
            let namespace = encode(namespace);
            let path = format!("{EXTERNAL}/{namespace}/{metric}?labelSelector={series}");
            of_values(cluster, &path).await
        }
        MetricSource::Resource {
            resource,
            container,
        } => {
            let pods = (namespace, selector);
            of_use(cluster, pods, resource, container.as_deref()).await
        }
    }
}

async fn of_pods(cluster: &Cluster, path: &str) -> Result<MetricsAnswer, CallError> {
    let list: List<Item> = cluster.read(path).await?;
    let samples = list.items.into_iter().filter_map(|item| {
        let sample = PodMetric {
            milli: item.value.0,
            at: item.timestamp.as_deref().map_or(Timestamp::MIN, time),
            window: item.window_seconds.map_or(NO_WINDOW, Duration::from_secs),
        };
        Some((item.described_object?.name, sample))
    });
    Ok(MetricsAnswer::Pods(samples.collect()))
}

async fn of_values(cluster: &Cluster, path: &str) -> Result<MetricsAnswer, CallError> {
    let list: List<Item> = cluster.read(path).await?;
    let values = list.items.iter().map(|item| item.value.0);
    Ok(MetricsAnswer::Values(values.collect()))
}

fn time(text: &str) -> Timestamp {
    Timestamp::from_date(text).unwrap_or(Timestamp::MIN)
}

async fn of_use(
    cluster: &Cluster,
    (namespace, selector): (&str, &str),
    resource: &str,
    container: Option<&str>,
) -> Result<MetricsAnswer, CallError> {
    let (namespace, selector) = (encode(namespace), encode(selector));
    let path = format!("{RESOURCE}/{namespace}/pods?labelSelector={selector}");
    let list: List<PodUse> = cluster.read(&path).await?;
    let samples = list.items.into_iter().map(|pod| {
        let counted = pod.containers.iter();
        let counted = counted.filter(|used| container.is_none_or(|name| used.name == name));
        let usage = counted.filter_map(|used| Some(used.usage.get(resource)?.0));
        let sample = PodMetric {
            milli: usage.sum(),
            at: time(&pod.timestamp),
            window: parse_duration(&pod.window).unwrap_or(NO_WINDOW),
        };
        (pod.metadata.name, sample)
    });
    Ok(MetricsAnswer::Pods(samples.collect()))
}

fn root(version: &str) -> String {
    match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    }
}

/// The resource of a kind: `deployments`.
async fn plural(cluster: &Cluster, version: &str, kind: &str) -> Result<String, CallError> {
    let known = kinds::known();
    let mut known = known.iter();
    if let Some(known) = known.find(|it| *it.kind == *kind && it.api_version() == version) {
        return Ok(known.plural.to_string());
    }
    let list: APIResourceList = cluster.read(&root(version)).await?;
    let mut found = list.resources.into_iter();
    let found = found.find(|resource| resource.kind == kind && !resource.name.contains('/'));
    let missing = || CallError::NotFound(format!("no matches for kind {kind:?} in {version:?}"));
    Ok(found.ok_or_else(missing)?.name)
}
