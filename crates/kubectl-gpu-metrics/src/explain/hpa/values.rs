//! The values of an autoscaler's metrics, asked for as the controller does.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::Selector;
use serde::Deserialize;

use apimachinery::duration::parse_duration;
use apimachinery::time::Timestamp;
use cluster_state::error::CallError;
use hpa::MetricsAnswer;
use hpa::hpa::MetricSource;
use hpa::pods::PodMetric;
use hpa::ratio::Milli;

use crate::cluster::{Cluster, encode};
use crate::kinds;
use crate::values::{EXTERNAL, Item, List, Named, RESOURCE, grouped, of_object};

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

pub(super) async fn answer(
    (cluster, namespace): (&Cluster, &str),
    selector: &str,
    source: &MetricSource,
) -> Result<MetricsAnswer, CallError> {
    // Without a selector everything is selected.
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
            // The controller asks in lower case.
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

pub(super) fn root(version: &str) -> String {
    match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    }
}

/// The resource of a kind: `deployments`.
pub(super) async fn plural(
    cluster: &Cluster,
    version: &str,
    kind: &str,
) -> Result<String, CallError> {
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
