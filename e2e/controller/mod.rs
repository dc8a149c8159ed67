//! Records what a real kube-controller-manager writes in many situations, for the tests of
//! the crate `hpa`: `make recorded`.
//!
//! The targets are objects of a CustomResourceDefinition and the pods run nowhere, so that
//! replicas, readiness and phases are exactly those of a situation.

pub(crate) mod metrics;
mod situations;

use std::sync::Arc;
use std::time::Duration;

use aggregated_apiserver::certificates::authority::CertificateAuthority;
use futures_util::stream::{self, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};

use crate::asking::ApiClient;
use crate::chart::root;
use crate::controlplane::{ControlPlane, Extent};
use crate::populated::send;
use crate::program::{in_time, ok_if};
use metrics::Metrics;
use situations::Situation;

const SYNC: Duration = Duration::from_secs(3);

/// Situations whose objects are created concurrently.
const SIDE_BY_SIDE: usize = 8;

/// Much longer than all syncs take.
const PATIENCE: Duration = Duration::from_secs(300);

const APISERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
    "v1beta1.metrics.k8s.io",
];

/// What the tests of `hpa` expect.
const RECORDED: &str = include_str!("../../crates/hpa/tests/recorded.json");

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn the_controller_writes_what_is_recorded() {
    let plane = ControlPlane::start(Extent::Api);
    let target = root().join("e2e/controller/target.yaml");
    plane.kubectl(&["apply", "-f", target.to_str().unwrap()]);
    let api = ApiClient::of(plane.kubeconfig());
    let situations: Vec<_> = situations::all().into_iter().map(Arc::new).collect();
    let metrics = Metrics::new(api.clone(), &situations);
    register(&plane, &api, metrics.serve().await).await;
    let made = situations.iter().map(|it| make(&api, it));
    stream::iter(made)
        .buffer_unordered(SIDE_BY_SIDE)
        .collect::<()>()
        .await;
    plane.start_autoscaling(SYNC);
    in_time("all syncs", PATIENCE, async || {
        let open: Vec<&str> = situations
            .iter()
            .filter(|it| !metrics.is_done(it))
            .map(|it| it.name.as_str())
            .collect();
        ok_if(open.is_empty(), &open)
    })
    .await;
    // The others ask for nothing.
    tokio::time::sleep(3 * SYNC).await;
    let version: Value = serde_json::from_str(&api.get("/version").await.body).unwrap();
    let mut lines = Vec::new();
    for situation in &situations {
        lines.push(recorded(&api, &metrics, situation).await.to_string());
    }
    let text = format!(
        "{{\"version\":{},\"situations\":[\n{}\n]}}\n",
        version["gitVersion"],
        lines.join(",\n")
    );
    // Only `make recorded` changes the file.
    match std::env::var_os("RECORDED") {
        Some(path) => std::fs::write(root().join(path), text).unwrap(),
        None => assert_eq!(situations_of(&text), situations_of(RECORDED)),
    }
}

/// Registers a metrics server on a port, and waits until kube-apiserver uses it.
pub(crate) async fn register(
    plane: &ControlPlane,
    api: &ApiClient,
    (port, authority): (u16, CertificateAuthority),
) {
    plane.kubectl(&["create", "namespace", "metrics"]);
    let bundle = json!(k8s_openapi::ByteString(
        authority.certificate_pem().into_bytes()
    ));
    plane.register(&APISERVICES, ("metrics", "metrics"), port, &bundle);
    for name in APISERVICES {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let available = r#""type":"Available","status":"True""#;
        api.until(&path, |reply| {
            reply.body.replace(' ', "").contains(available)
                || reply.body.contains("all checks passed")
        })
        .await;
    }
}

/// The recorded situations, without the times of their syncs, which differ each time.
fn situations_of(text: &str) -> Vec<Value> {
    let mut recorded: Value = serde_json::from_str(text).unwrap();
    let situations = recorded["situations"].as_array_mut().unwrap();
    for situation in situations.iter_mut() {
        for sync in situation["syncs"].as_array_mut().unwrap() {
            sync.as_object_mut().unwrap().remove("ms");
        }
    }
    std::mem::take(situations)
}

/// Creates the objects of a situation.
async fn make(api: &ApiClient, situation: &Situation) {
    let id = &situation.id;
    let namespace = json!({"metadata": {"name": id}});
    send(api, Method::POST, "/api/v1/namespaces", &namespace).await;
    let pods = format!("/api/v1/namespaces/{id}/pods");
    for pod in situation.pods() {
        send(api, Method::POST, &pods, &pod).await;
        let path = format!("{pods}/{}", pod["metadata"]["name"].as_str().unwrap());
        let status = json!({"status": pod["status"]});
        send(api, Method::PATCH, &format!("{path}/status"), &status).await;
        if !pod["metadata"]["finalizers"].is_null() {
            api.send(Method::DELETE, &path).await;
        }
    }
    let is_shared = situation.written["shared"] == true;
    let names = if is_shared {
        &["target", "other"][..]
    } else {
        &["target"]
    };
    for name in names {
        make_target(api, situation, name).await;
        let hpas = format!("/apis/autoscaling/v2/namespaces/{id}/horizontalpodautoscalers");
        let mut spec = situation.spec.clone();
        if *name == "other" {
            spec["scaleTargetRef"]["name"] = json!(name);
        }
        let hpa = json!({"metadata": {"name": name}, "spec": spec});
        send(api, Method::POST, &hpas, &hpa).await;
        if let Some(conditions) = situation.written["conditions"].as_array() {
            let status =
                json!({"conditions": conditions, "currentMetrics": null, "desiredReplicas": 0});
            let status = json!({"status": status});
            send(
                api,
                Method::PATCH,
                &format!("{hpas}/{name}/status"),
                &status,
            )
            .await;
        }
    }
}

async fn make_target(api: &ApiClient, situation: &Situation, name: &str) {
    let (id, replicas) = (&situation.id, situation.replicas);
    let mut status = json!({"replicas": situation.status_replicas});
    let mut spec = json!({"replicas": replicas});
    let (version, kind, plural) = if situation.is_of_deployment() {
        let labels = json!({"app": "target"});
        let containers = json!([{"name": "main", "image": "none"}]);
        spec["selector"] = json!({"matchLabels": labels});
        spec["template"] =
            json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        ("apps/v1", "Deployment", "deployments")
    } else {
        let selector = situation.written["selector"].as_str();
        status["selector"] = json!(selector.unwrap_or("app=target"));
        ("example.com/v1", "Target", "targets")
    };
    let path = format!("/apis/{version}/namespaces/{id}/{plural}");
    let metadata = json!({"name": name});
    let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    send(api, Method::POST, &path, &object).await;
    let status = json!({"status": status});
    send(
        api,
        Method::PATCH,
        &format!("{path}/{name}/status"),
        &status,
    )
    .await;
}

/// What the controller wrote last, without times: the replicas and the status.
async fn written(api: &ApiClient, situation: &Situation) -> Value {
    let id = &situation.id;
    let read = async |path: String| -> Value {
        let reply = api.get(&path).await;
        serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{path}: {reply:?}"))
    };
    let hpas = format!("/apis/autoscaling/v2/namespaces/{id}/horizontalpodautoscalers");
    let mut status = read(format!("{hpas}/target")).await["status"].take();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("lastScaleTime");
        fields.remove("observedGeneration");
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition
            .as_object_mut()
            .unwrap()
            .remove("lastTransitionTime");
    }
    let scale = read(situation.scale_path()).await;
    // Kubernetes leaves a zero out.
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    json!({"replicas": replicas, "status": status})
}

/// The situation, and the result of each sync.
async fn recorded(api: &ApiClient, metrics: &Metrics, situation: &Situation) -> Value {
    let (mut results, begun, paths) = metrics.of(situation, |asked| {
        let paths: Vec<String> = asked.paths.values().cloned().collect();
        (
            std::mem::take(&mut asked.written),
            asked.begun.clone(),
            paths,
        )
    });
    if results.is_empty() {
        results.push(written(api, situation).await);
    }
    let mut replicas = json!(situation.replicas);
    let unasked = usize::from(situation.begins_unasked);
    let syncs = results.into_iter().enumerate().map(|(place, result)| {
        let asked = place.checked_sub(unasked);
        let answers = asked.and_then(|asked| situation.syncs.get(asked));
        let ms =
            asked.and_then(|asked| Some(begun.get(asked)?.duration_since(begun[0]).as_millis()));
        let before = std::mem::replace(&mut replicas, result["replicas"].clone());
        json!({
            "ms": ms.filter(|_| answers.is_some()), "answers": answers,
            "scale": [before, situation.status_replicas], "wrote": result,
        })
    });
    let syncs: Vec<Value> = syncs.collect();
    let asks = situation.syncs.first().map(|_| paths);
    let pods = situation.pods().into_iter().map(|mut pod| {
        let is_deleted = !pod["metadata"]["finalizers"].is_null();
        let ready = &pod["status"]["conditions"][0];
        let ready = json!([{"type": "Ready", "status": ready["status"]}]);
        let mut metadata = json!({"name": pod["metadata"]["name"].take()});
        if is_deleted {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        json!({"metadata": metadata, "status": {"phase": pod["status"]["phase"], "conditions": ready}})
    });
    json!({
        "name": situation.name, "namespace": situation.id, "spec": situation.spec,
        "before": situation.written, "pods": pods.collect::<Vec<_>>(), "asks": asks, "syncs": syncs,
    })
}
