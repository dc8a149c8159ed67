//! Autoscalers of the simulated fleet: their objects, targets and pods as kube-apiserver
//! serves them, and a controller that computes their status. It does not scale.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use url::form_urlencoded;

use apimachinery::quantity::milli_text;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use cluster_state::client::Client;
use cluster_state::clock;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::inventory::{Inventory, Pod};
use hpa::{Limit, Trace};
use kubectl_gpu_metrics::cluster::Cluster;
use kubectl_gpu_metrics::explain::hpa::Decision;
use simulator::Fleet;

/// The sync period. It is shorter than the 15 s of a cluster, which would be long in a
/// demonstration.
const SYNC: Duration = Duration::from_secs(3);

/// Metrics and targets of the autoscalers: a load that needs more replicas, a target that
/// is never exceeded, a misspelt name.
const METRICS: [(&str, &str); 3] = [
    (MEMORY_UTILIZATION, "20"),
    (MEMORY_UTILIZATION, "95"),
    ("gpu_memory_utilisation", "50"),
];

/// The autoscalers, and the fleet with the Deployments that they scale.
#[derive(Clone, Debug)]
pub(super) struct Autoscalers {
    fleet: Arc<Fleet>,
    /// The objects, by namespace and name.
    objects: Arc<ArcSwap<AutoscalerObjects>>,
}

type AutoscalerObjects = BTreeMap<(String, String), Value>;

impl Autoscalers {
    /// Makes an autoscaler for each of the first Deployments, with the present number of
    /// replicas.
    pub(super) fn new(fleet: Arc<Fleet>) -> Self {
        let inventory = fleet.inventory(clock::now());
        let deployments = inventory.workloads.iter();
        let deployments = deployments.filter(|it| &*it.kind.kind == "Deployment");
        let objects = deployments.zip(METRICS).map(|(workload, (metric, target))| {
            let (namespace, name) = (&*workload.namespace, &*workload.name);
            let replicas = of_target(&inventory, namespace, name).count();
            let hpa = json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                    "minReplicas": replicas, "maxReplicas": replicas,
                    "metrics": [{"type": "Pods", "pods": {
                        "metric": {"name": metric},
                        "target": {"type": "AverageValue", "averageValue": target},
                    }}],
                },
            });
            ((namespace.to_owned(), name.to_owned()), hpa)
        });
        Self {
            objects: Arc::new(ArcSwap::from_pointee(objects.collect())),
            fleet,
        }
    }

    /// Namespace and name of the first autoscaler.
    pub(super) fn first(&self) -> Option<(String, String)> {
        self.objects.load().keys().next().cloned()
    }

    /// The paths of kube-apiserver for the autoscalers, and for the fleet's Prometheus.
    pub(super) fn routes(&self) -> Router {
        let hpas = |place: &str| format!("/apis/autoscaling/v2{place}/horizontalpodautoscalers");
        Router::new()
            .route(&hpas(""), get(hpas_of))
            .route(&hpas("/namespaces/{namespace}"), get(hpas_of))
            .route(&(hpas("/namespaces/{namespace}") + "/{name}"), get(hpa))
            .route("/apis/apps/v1", get(kinds))
            .route(
                "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
                get(scale),
            )
            .route("/api/v1/pods", get(pods))
            .route("/api/v1/namespaces/{namespace}/pods", get(pods))
            .with_state(self.clone())
            .merge(super::fleet::service(Arc::clone(&self.fleet)))
    }

    /// Writes the status of each autoscaler in a loop. It is computed from the API's
    /// responses to `client`.
    pub(super) async fn control(self, client: Client) {
        let cluster = Cluster::of(client, None);
        loop {
            let mut objects = AutoscalerObjects::clone(&self.objects.load());
            for ((namespace, name), hpa) in &mut objects {
                let decision = Decision::of(&cluster, (namespace, name)).await;
                if let Ok(Ok(trace)) = decision.map(|it| it.trace) {
                    hpa["status"] = status(hpa, &trace);
                }
            }
            self.objects.store(Arc::new(objects));
            tokio::time::sleep(SYNC).await;
        }
    }
}

/// The status that the controller writes after a sync.
fn status(hpa: &Value, trace: &Trace) -> Value {
    let named = &hpa["spec"]["metrics"][0]["pods"]["metric"];
    let metrics = trace.metrics.iter().filter_map(|metric| {
        let current = json!({"averageValue": milli_text(metric.shown()?.0)});
        Some(json!({"type": "Pods", "pods": {"metric": named, "current": current}}))
    });
    let condition = |type_: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        json!({"type": type_, "status": status, "reason": reason, "message": message})
    };
    let mut conditions = vec![condition(
        "AbleToScale",
        true,
        "ReadyForNewScale",
        "recommended size matches current size",
    )];
    match trace.desired {
        Some(_) => {
            let found = "the HPA was able to successfully calculate a replica count";
            conditions.push(condition("ScalingActive", true, "ValidMetricFound", found));
            let reason = trace.limit.map_or("DesiredWithinRange", Limit::reason);
            let limited = trace.limit.is_some();
            conditions.push(condition("ScalingLimited", limited, reason, ""));
        }
        None => {
            let mut steps = trace.metrics.iter().flat_map(|metric| &metric.steps);
            let why = steps.next_back().map_or("", String::as_str);
            conditions.push(condition(
                "ScalingActive",
                false,
                "FailedGetPodsMetric",
                why,
            ));
        }
    }
    json!({
        "currentReplicas": trace.current,
        "desiredReplicas": trace.desired.unwrap_or(0),
        "currentMetrics": metrics.collect::<Vec<_>>(),
        "conditions": conditions,
    })
}

/// The pods of a Deployment.
fn of_target<'i>(
    inventory: &'i Inventory,
    namespace: &'i str,
    name: &'i str,
) -> impl Iterator<Item = &'i Pod> {
    let is_of = move |pod: &&Pod| {
        &*pod.namespace == namespace && pod.is_live() && pod.labels.get("app") == Some(name)
    };
    inventory.pods.iter().filter(is_of)
}

fn json_of(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn list(items: impl Iterator<Item = Value>) -> Response {
    json_of(&json!({"metadata": {}, "items": items.collect::<Vec<_>>()}))
}

/// The namespace of a path; `None`: all namespaces.
type Within = Option<Path<String>>;

fn is_within(within: &Within, namespace: &str) -> bool {
    within.as_ref().is_none_or(|Path(it)| it == namespace)
}

async fn hpas_of(State(them): State<Autoscalers>, within: Within) -> Response {
    let objects = them.objects.load();
    let asked = objects
        .iter()
        .filter(|((namespace, _), _)| is_within(&within, namespace));
    list(asked.map(|(_, hpa)| hpa.clone()))
}

async fn hpa(State(them): State<Autoscalers>, Path(key): Path<(String, String)>) -> Response {
    match them.objects.load().get(&key) {
        Some(hpa) => json_of(hpa),
        None => (StatusCode::NOT_FOUND, format!("{} not found", key.1)).into_response(),
    }
}

async fn kinds() -> Response {
    json_of(&json!({"groupVersion": "apps/v1", "resources": [{
        "name": "deployments", "singularName": "deployment", "namespaced": true,
        "kind": "Deployment", "verbs": ["get"],
    }]}))
}

async fn scale(
    State(them): State<Autoscalers>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let inventory = them.fleet.inventory(clock::now());
    let replicas = of_target(&inventory, &namespace, &name).count();
    json_of(&json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas, "selector": format!("app={name}")},
    }))
}

async fn pods(State(them): State<Autoscalers>, within: Within, uri: Uri) -> Response {
    let mut query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let labels = query.find(|(name, _)| name == "labelSelector");
    let selector = match Selector::parse(&labels.unwrap_or_default().1) {
        Ok(selector) => selector,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let inventory = them.fleet.inventory(clock::now());
    let pods = inventory.pods.iter();
    let pods = pods.filter(|it| is_within(&within, &it.namespace) && selector.matches(&it.labels));
    list(pods.map(|it| pod(&inventory, it)))
}

/// A pod, with its workload as its direct owner.
fn pod(inventory: &Inventory, pod: &Pod) -> Value {
    let labels = pod.labels.iter().map(|(name, value)| (&**name, &**value));
    let owners = pod.owners.last().into_iter();
    let owners = owners.filter_map(|place| inventory.workloads.get(*place as usize));
    let owners = owners.map(|it| {
        json!({
            "apiVersion": &*it.kind.api_version, "kind": &*it.kind.kind, "name": &*it.name,
            "uid": "", "controller": true,
        })
    });
    let gpus = json!({"limits": {"nvidia.com/gpu": pod.gpus.to_string()}});
    json!({
        "metadata": {
            "namespace": &*pod.namespace, "name": &*pod.name,
            "labels": labels.collect::<BTreeMap<_, _>>(),
            "ownerReferences": owners.collect::<Vec<_>>(),
        },
        "spec": {"nodeName": pod.node.as_deref(), "containers": [{"name": "main", "resources": gpus}]},
        "status": {
            "phase": if pod.is_live() { "Running" } else { "Succeeded" },
            "startTime": pod.started.map(Timestamp::date),
        },
    })
}
