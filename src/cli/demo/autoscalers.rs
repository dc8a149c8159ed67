//! Autoscalers of the simulated fleet: what a kube-apiserver serves of them, their
//! targets and pods, and a controller that computes their syncs. It scales nothing:
//! the fleet stays as it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::watch;
use url::form_urlencoded;

use crate::app::clock;
use crate::autoscaler::Trace;
use crate::autoscaler::metric::Outcome;
use crate::cli::cluster::Cluster;
use crate::cli::explain::hpa::Decision;
use crate::cluster::client::Client;
use crate::core::inventory::{Inventory, Pod};
use crate::core::selector::Selector;
use crate::core::time::Timestamp;
use crate::dcgm::metrics::MEMORY_UTILIZATION;
use crate::simulator::Fleet;

/// How often syncs are computed: a visitor does not wait for the 15 s of a cluster.
const SYNC: Duration = Duration::from_secs(3);

/// What the autoscalers ask for: a load that wants more replicas than there are, a
/// target that is never exceeded, a misspelt name.
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
    objects: Arc<Mutex<Objects>>,
}

type Objects = BTreeMap<(String, String), Value>;

impl Autoscalers {
    /// One for each of the first Deployments, with as many replicas as these have.
    pub(super) fn new(fleet: Arc<Fleet>) -> Self {
        let inventory = fleet.inventory(clock::now());
        let mut objects = Objects::new();
        let deployments = inventory.workloads.iter();
        let deployments = deployments.filter(|it| &*it.kind.kind == "Deployment");
        for (workload, (metric, target)) in deployments.zip(METRICS) {
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
            objects.insert((namespace.to_owned(), name.to_owned()), hpa);
        }
        Self {
            fleet,
            objects: Arc::new(Mutex::new(objects)),
        }
    }

    /// `NAMESPACE/NAME` of the first.
    pub(super) fn first(&self) -> Option<String> {
        let objects = self.all();
        let (namespace, name) = objects.keys().next()?;
        Some(format!("{namespace}/{name}"))
    }

    fn all(&self) -> Objects {
        let objects = self.objects.lock();
        objects.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a kube-apiserver serves of them.
    pub(super) fn routes(&self) -> Router {
        const HPAS: &str = "horizontalpodautoscalers";
        Router::new()
            .route(&format!("/apis/autoscaling/v2/{HPAS}"), get(everywhere))
            .route(
                &format!("/apis/autoscaling/v2/namespaces/{{namespace}}/{HPAS}"),
                get(in_namespace),
            )
            .route(
                &format!("/apis/autoscaling/v2/namespaces/{{namespace}}/{HPAS}/{{name}}"),
                get(named),
            )
            .route("/apis/apps/v1", get(kinds))
            .route(
                "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
                get(scale),
            )
            .route("/api/v1/pods", get(all_pods))
            .route("/api/v1/namespaces/{namespace}/pods", get(pods))
            .with_state(self.clone())
    }

    /// Writes the status of each again and again, of what `client` is answered.
    pub(super) async fn control(self, client: Client, mut stop: watch::Receiver<bool>) {
        let cluster = Cluster::of(client, None);
        loop {
            for (namespace, name) in self.all().into_keys() {
                let decision = Decision::of(&cluster, (&namespace, &name)).await;
                let objects = self.objects.lock();
                let mut objects = objects.unwrap_or_else(PoisonError::into_inner);
                if let (Ok(decision), Some(hpa)) = (decision, objects.get_mut(&(namespace, name))) {
                    hpa["status"] = status(&decision.trace);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(SYNC) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }
}

/// What the controller writes of a sync.
fn status(trace: &Trace) -> Value {
    let metrics = trace.metrics.iter().filter_map(|metric| {
        let Outcome::Asks(step) = &metric.outcome else {
            return None;
        };
        let current = json!({"averageValue": step.shown()});
        Some(json!({"type": "Pods", "pods": {"metric": {"name": metric.name}, "current": current}}))
    });
    let conditions = trace.conditions.iter().map(|it| {
        let status = if it.status { "True" } else { "False" };
        json!({"type": it.type_, "status": status, "reason": it.reason, "message": it.message})
    });
    json!({
        "currentReplicas": trace.current,
        "desiredReplicas": trace.desired.unwrap_or(0),
        "currentMetrics": metrics.collect::<Vec<_>>(),
        "conditions": conditions.collect::<Vec<_>>(),
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

async fn everywhere(State(them): State<Autoscalers>) -> Response {
    list(them.all().into_values())
}

async fn in_namespace(State(them): State<Autoscalers>, Path(within): Path<String>) -> Response {
    let all = them.all().into_iter();
    list(all.filter_map(|((namespace, _), hpa)| (namespace == within).then_some(hpa)))
}

async fn named(State(them): State<Autoscalers>, Path(key): Path<(String, String)>) -> Response {
    match them.all().get(&key) {
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

async fn all_pods(State(them): State<Autoscalers>) -> Response {
    let inventory = them.fleet.inventory(clock::now());
    list(inventory.pods.iter().map(|it| pod(&inventory, it)))
}

async fn pods(
    State(them): State<Autoscalers>,
    Path(namespace): Path<String>,
    uri: Uri,
) -> Response {
    let mut query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let labels = query.find(|(name, _)| name == "labelSelector");
    let labels = labels.map(|(_, labels)| labels).unwrap_or_default();
    let selector = match Selector::parse(&labels) {
        Ok(selector) => selector,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let inventory = them.fleet.inventory(clock::now());
    let pods = inventory.pods.iter();
    let pods = pods.filter(|it| *it.namespace == namespace && selector.matches(&it.labels));
    list(pods.map(|it| pod(&inventory, it)))
}

/// A pod, owned by the workload itself and by nothing between them.
fn pod(inventory: &Inventory, pod: &Pod) -> Value {
    let labels = pod.labels.iter().map(|(name, value)| (&**name, &**value));
    let owner = pod
        .owners
        .last()
        .and_then(|place| inventory.workloads.get(*place as usize));
    let owner = owner.map(|it| {
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
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": {"nodeName": pod.node.as_deref(), "containers": [{"name": "main", "resources": gpus}]},
        "status": {
            "phase": if pod.is_live() { "Running" } else { "Succeeded" },
            "startTime": pod.started.map(Timestamp::date),
        },
    })
}
