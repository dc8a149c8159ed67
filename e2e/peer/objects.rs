//! The cluster's objects, and Prometheus' series about them and others.

use std::io::Write as _;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::controlplane::ControlPlane;
use crate::prometheus::{Storage, Store, blocks};

/// The requested namespaces: one has no pods, and one does not exist.
pub(super) const NAMESPACES: &[&str] = &["default", "prod", "empty", "nowhere"];

/// How far the series extend before and after the start, in seconds; the test is
/// shorter.
const SPAN: i64 = 20 * 60;

/// Seconds between two samples.
const STEP: i64 = 15;

/// Kinds of objects, and their resources as in the names of metrics.
const KINDS: [(&str, &str); 10] = [
    ("Pod", "pods"),
    ("Service", "services"),
    ("Deployment", "deployments.apps"),
    ("StatefulSet", "statefulsets.apps"),
    ("Job", "jobs.batch"),
    ("Ingress", "ingresses.networking.k8s.io"),
    (
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers.autoscaling",
    ),
    ("Node", "nodes"),
    ("PersistentVolume", "persistentvolumes"),
    ("StorageClass", "storageclasses.storage.k8s.io"),
];

static OBJECTS: LazyLock<Vec<Value>> =
    LazyLock::new(|| serde_saphyr::from_multiple(include_str!("objects.yaml")).unwrap());

/// The first names of a kind's objects in a namespace (empty if cluster-scoped).
pub(super) fn names(resource: &str, namespace: &str) -> impl Iterator<Item = &'static str> {
    let kind = KINDS.iter().find(|kind| kind.1 == resource);
    let there = OBJECTS.iter().filter(move |object| {
        kind.is_some_and(|kind| object["kind"] == kind.0)
            && object["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
    });
    there
        .filter_map(|object| object["metadata"]["name"].as_str())
        .take(5)
}

/// Creates all objects.
pub(super) fn create(plane: &ControlPlane) {
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": *OBJECTS}));
    let status = r#"{"status":{"phase":"Succeeded"}}"#;
    plane.run(&format!(
        "patch pod done-1 --subresource=status --type=merge --patch={status}"
    ));
}

/// A Prometheus with `series.txt` from some minutes ago to some minutes ahead, so
/// that both servers read the same at any time.
pub(super) async fn prometheus() -> Store {
    holding(include_str!("series.txt")).await
}

/// A Prometheus with other series in the same format.
pub(crate) async fn holding(series: &str) -> Store {
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
    storage.start("").await
}
