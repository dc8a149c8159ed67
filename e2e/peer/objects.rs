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

/// A kind: resource as in the names of metrics, version, kind and specification.
type Kind = (&'static str, &'static str, &'static str, fn() -> Value);

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

const KINDS: &[Kind] = &[
    ("pods", "v1", "Pod", pod),
    ("services", "v1", "Service", service),
    ("deployments.apps", "apps/v1", "Deployment", scaled),
    ("statefulsets.apps", "apps/v1", "StatefulSet", stateful),
    ("jobs.batch", "batch/v1", "Job", job),
    (INGRESSES, "networking.k8s.io/v1", "Ingress", ingress),
    (
        HPAS,
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        autoscaler,
    ),
    ("nodes", "v1", "Node", nothing),
    ("persistentvolumes", "v1", "PersistentVolume", volume),
    (CLASSES, "storage.k8s.io/v1", "StorageClass", nothing),
];

const INGRESSES: &str = "ingresses.networking.k8s.io";
const HPAS: &str = "horizontalpodautoscalers.autoscaling";
const CLASSES: &str = "storageclasses.storage.k8s.io";

/// Resource, namespace (empty if cluster-scoped), name, and value of the label `app`.
/// Objects of a kind are in the order of their names, as in lists.
const OBJECTS: &[(&str, &str, &str, &str)] = &[
    ("pods", "default", "done-1", "web"),
    ("pods", "default", "idle-1", "idle"),
    ("pods", "default", "sample-app-1", "sample-app"),
    ("pods", "default", "web-1", "web"),
    ("pods", "default", "web-2", "web"),
    ("pods", "default", "web.dot", "web"),
    ("pods", "default", "worker-1", "worker"),
    ("pods", "prod", "api-1", "api"),
    ("pods", "prod", "web-1", "web"),
    ("services", "default", "sample-app", "sample-app"),
    ("services", "default", "web", "web"),
    ("services", "prod", "web", "web"),
    ("deployments.apps", "default", "web", "web"),
    ("statefulsets.apps", "default", "db", "db"),
    ("jobs.batch", "default", "nightly", "web"),
    (INGRESSES, "default", "front", "web"),
    (HPAS, "default", "web", "web"),
    ("nodes", "", "n1", "web"),
    ("nodes", "", "n2", ""),
    ("persistentvolumes", "", "pv-1", "web"),
    (CLASSES, "", "fast", "web"),
];

/// The first names of a kind's objects in a namespace.
pub(super) fn names(resource: &str, namespace: &str) -> impl Iterator<Item = &'static str> {
    let there = OBJECTS
        .iter()
        .filter(move |object| object.0 == resource && object.1 == namespace);
    there.map(|object| object.2).take(5)
}

/// Creates all objects.
pub(super) fn create(plane: &ControlPlane) {
    let namespaces = NAMESPACES.iter().filter(|&&name| name != "nowhere");
    let namespaces = namespaces.map(|name| {
        let labels = json!({"app": if *name == "default" { "web" } else { "" }});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    });
    let objects = OBJECTS.iter().map(|&(resource, namespace, name, app)| {
        let of = KINDS.iter().find(|kind| kind.0 == resource);
        let (_, version, kind, spec) = of.unwrap();
        let mut object = json!({
            "apiVersion": version, "kind": kind,
            "metadata": {"name": name, "labels": {"app": app}},
        });
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if resource == CLASSES {
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
