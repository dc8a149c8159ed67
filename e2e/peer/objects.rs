//! The cluster's objects, and Prometheus' series about them and others.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::controlplane::ControlPlane;
use crate::prometheus::{Engine, Storage, blocks};

/// The requested namespaces: one has no pods, and one does not exist.
pub(super) const NAMESPACES: &[&str] = &["default", "prod", "empty", "nowhere"];

/// How far the series extend before and after the start, in seconds; the test is
/// shorter.
const SPAN: i64 = 20 * 60;

/// Seconds between two samples.
const STEP: i64 = 15;

/// An object: resource as in the names of metrics, version, kind, namespace
/// (empty if cluster-scoped), name, value of the label `app`, and specification.
type Object = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    fn() -> Value,
);

fn pod() -> Value {
    json!({"containers": [{"name": "app", "image": "nobody.invalid/app"}]})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": pod()})
}

fn scaled() -> Value {
    json!({"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template()})
}

fn stateful() -> Value {
    let mut spec = scaled();
    spec["serviceName"] = json!("db");
    spec
}

fn job() -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"suspend": true, "template": template})
}

fn service() -> Value {
    json!({"type": "ExternalName", "externalName": "nobody.invalid"})
}

fn ingress() -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    json!({"defaultBackend": backend})
}

fn autoscaler() -> Value {
    json!({
        "maxReplicas": 2,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    })
}

fn volume() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/nowhere"},
    })
}

fn nothing() -> Value {
    Value::Null
}

/// Objects of a kind are in the order of their names, as in lists.
const OBJECTS: &[Object] = &[
    ("pods", "v1", "Pod", "default", "done-1", "web", pod),
    ("pods", "v1", "Pod", "default", "idle-1", "idle", pod),
    (
        "pods",
        "v1",
        "Pod",
        "default",
        "sample-app-1",
        "sample-app",
        pod,
    ),
    ("pods", "v1", "Pod", "default", "web-1", "web", pod),
    ("pods", "v1", "Pod", "default", "web-2", "web", pod),
    ("pods", "v1", "Pod", "default", "web.dot", "web", pod),
    ("pods", "v1", "Pod", "default", "worker-1", "worker", pod),
    ("pods", "v1", "Pod", "prod", "api-1", "api", pod),
    ("pods", "v1", "Pod", "prod", "web-1", "web", pod),
    (
        "services",
        "v1",
        "Service",
        "default",
        "sample-app",
        "sample-app",
        service,
    ),
    (
        "services", "v1", "Service", "default", "web", "web", service,
    ),
    ("services", "v1", "Service", "prod", "web", "web", service),
    (
        "deployments.apps",
        "apps/v1",
        "Deployment",
        "default",
        "web",
        "web",
        scaled,
    ),
    (
        "statefulsets.apps",
        "apps/v1",
        "StatefulSet",
        "default",
        "db",
        "db",
        stateful,
    ),
    (
        "jobs.batch",
        "batch/v1",
        "Job",
        "default",
        "nightly",
        "web",
        job,
    ),
    (
        "ingresses.networking.k8s.io",
        "networking.k8s.io/v1",
        "Ingress",
        "default",
        "front",
        "web",
        ingress,
    ),
    (
        "horizontalpodautoscalers.autoscaling",
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "default",
        "web",
        "web",
        autoscaler,
    ),
    ("nodes", "v1", "Node", "", "n1", "web", nothing),
    ("nodes", "v1", "Node", "", "n2", "", nothing),
    (
        "persistentvolumes",
        "v1",
        "PersistentVolume",
        "",
        "pv-1",
        "web",
        volume,
    ),
    (
        "storageclasses.storage.k8s.io",
        "storage.k8s.io/v1",
        "StorageClass",
        "",
        "fast",
        "web",
        nothing,
    ),
];

/// The first names of a kind's objects in a namespace.
pub(super) fn names(resource: &str, namespace: &str) -> impl Iterator<Item = &'static str> {
    let there = OBJECTS
        .iter()
        .filter(move |object| object.0 == resource && object.3 == namespace);
    there.map(|object| object.4).take(5)
}

/// Creates all objects.
pub(super) fn create(plane: &ControlPlane) {
    let namespaces = NAMESPACES.iter().filter(|&&name| name != "nowhere");
    let namespaces = namespaces.map(|name| {
        let labels = json!({"app": if *name == "default" { "web" } else { "" }});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    });
    let objects = OBJECTS
        .iter()
        .map(|&(_, version, kind, namespace, name, app, spec)| {
            let mut object = json!({
                "apiVersion": version, "kind": kind,
                "metadata": {"name": name, "labels": {"app": app}},
            });
            if !namespace.is_empty() {
                object["metadata"]["namespace"] = json!(namespace);
            }
            if kind == "StorageClass" {
                object["provisioner"] = json!("nobody.invalid/disk");
            } else if !spec().is_null() {
                object["spec"] = spec();
            }
            object
        });
    let items: Vec<Value> = namespaces.chain(objects).collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    let finished = [
        "patch",
        "pod",
        "done-1",
        "--subresource=status",
        "--type=merge",
        r#"--patch={"status":{"phase":"Succeeded"}}"#,
    ];
    plane.kubectl(&finished);
}

/// A Prometheus with `series.txt` from some minutes ago to some minutes ahead, so
/// that both servers read the same at any time.
pub(super) async fn prometheus() -> Engine {
    holding(include_str!("series.txt")).await
}

/// A Prometheus with other series in the same format.
pub(super) async fn holding(series: &str) -> Engine {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_secs()).unwrap() / STEP * STEP;
    let storage = Storage::new();
    blocks(&storage, "", |out| {
        for line in series.lines() {
            let Some((series, number)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))
            else {
                continue;
            };
            // A number may begin with a sign; `1e+17` does not occur.
            let (start, rate) = match number.get(1..).and_then(|rest| rest.find('+')) {
                Some(at) => number.split_at(at + 1),
                None => (number, "0"),
            };
            let rate: f64 = rate.parse().unwrap();
            for time in (now - SPAN..now + SPAN).step_by(usize::try_from(STEP).unwrap()) {
                let seconds = (time - now + SPAN) as f64;
                if rate == 0.0 {
                    writeln!(out, "{series} {start} {time}")?;
                } else {
                    let start: f64 = start.parse().unwrap();
                    writeln!(out, "{series} {} {time}", start + rate * seconds)?;
                }
            }
        }
        out.write_all(b"# EOF\n")
    });
    Engine::start(storage, "").await
}
