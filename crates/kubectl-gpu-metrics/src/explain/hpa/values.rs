//! The values of an autoscaler's metrics, asked for as the controller does.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResourceList, LabelSelector};
use kube::core::Selector;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use apimachinery::duration::parse_duration;
use apimachinery::quantity::parse_milli;
use apimachinery::time::Timestamp;
use cluster_state::error::CallError;
use hpa::MetricsAnswer;
use hpa::hpa::MetricSource;
use hpa::pods::PodMetric;

use crate::Failure;
use crate::cluster::{Cluster, encode};
use crate::explain::failure;
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
    usage: BTreeMap<String, String>,
}

/// Why something could not be read.
pub(super) enum Unread {
    /// The error that the controller gets too.
    Failed(String),
    /// The caller may not: nothing can be said of the controller.
    Refused(Failure),
}

impl Unread {
    /// The error that the controller gets.
    pub(super) fn told(self) -> Result<String, Failure> {
        match self {
            Self::Failed(said) => Ok(said),
            Self::Refused(failure) => Err(failure),
        }
    }
}

impl From<CallError> for Unread {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotFound(said) => Self::Failed(said),
            CallError::Forbidden { .. } | CallError::Unauthorized(..) => {
                Self::Refused(failure(&error))
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<String> for Unread {
    fn from(said: String) -> Self {
        Self::Failed(said)
    }
}

pub(super) async fn answer(
    (cluster, namespace): (&Cluster, &str),
    selector: &str,
    source: &MetricSource,
) -> Result<MetricsAnswer, Unread> {
    let series = series(source.selector())?;
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

async fn of_pods(cluster: &Cluster, path: &str) -> Result<MetricsAnswer, Unread> {
    let mut samples = BTreeMap::new();
    for item in items::<Item>(cluster, path).await? {
        let Some(described) = item.described_object else {
            continue;
        };
        let window = item.window_seconds.map_or(NO_WINDOW, Duration::from_secs);
        let sample = PodMetric {
            milli: milli(&item.value)?,
            at: item.timestamp.as_deref().map_or(Timestamp::MIN, time),
            window,
        };
        samples.insert(described.name, sample);
    }
    Ok(MetricsAnswer::Pods(samples))
}

async fn of_values(cluster: &Cluster, path: &str) -> Result<MetricsAnswer, Unread> {
    let items = items::<Item>(cluster, path).await?;
    let values = items.iter().map(|item| milli(&item.value));
    Ok(MetricsAnswer::Values(values.collect::<Result<_, _>>()?))
}

/// A metric's selector for a query; empty selects everything.
fn series(selector: Option<&LabelSelector>) -> Result<String, String> {
    let selector = selector.cloned().unwrap_or_default();
    let selector = Selector::try_from(selector).map_err(|error| error.to_string())?;
    Ok(encode(&selector.to_string()))
}

async fn items<T: DeserializeOwned>(cluster: &Cluster, path: &str) -> Result<Vec<T>, Unread> {
    let list: List<T> = cluster.read(path).await?;
    Ok(list.items)
}

fn time(text: &str) -> Timestamp {
    Timestamp::from_date(text).unwrap_or(Timestamp::MIN)
}

fn milli(text: &str) -> Result<i64, String> {
    parse_milli(text).ok_or_else(|| format!("{text:?} is no quantity"))
}

async fn of_use(
    cluster: &Cluster,
    (namespace, selector): (&str, &str),
    resource: &str,
    container: Option<&str>,
) -> Result<MetricsAnswer, Unread> {
    let path = format!(
        "{RESOURCE}/{}/pods?labelSelector={}",
        encode(namespace),
        encode(selector)
    );
    let mut samples = BTreeMap::new();
    for pod in items::<PodUse>(cluster, &path).await? {
        let mut sum = 0;
        let counted = pod.containers.iter();
        for used in counted.filter(|used| container.is_none_or(|name| used.name == name)) {
            sum += used.usage.get(resource).map_or(Ok(0), |text| milli(text))?;
        }
        let window = parse_duration(&pod.window).unwrap_or(NO_WINDOW);
        let sample = PodMetric {
            milli: sum,
            at: time(&pod.timestamp),
            window,
        };
        samples.insert(pod.metadata.name, sample);
    }
    Ok(MetricsAnswer::Pods(samples))
}

/// The path of an API version.
pub(super) fn root(version: &str) -> String {
    match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    }
}

/// The resource of a kind: `deployments`.
pub(super) async fn plural(cluster: &Cluster, version: &str, kind: &str) -> Result<String, Unread> {
    let known = kinds::known();
    let mut known = known.iter();
    if let Some(known) = known.find(|it| *it.kind == *kind && it.api_version() == version) {
        return Ok(known.plural.to_string());
    }
    let list: APIResourceList = cluster.read(&root(version)).await?;
    let mut found = list.resources.into_iter();
    let found = found.find(|resource| resource.kind == kind && !resource.name.contains('/'));
    let found = found.ok_or_else(|| format!("no matches for kind {kind:?} in {version:?}"))?;
    Ok(found.name)
}
