//! Explanations of small scenes, and for which users they contain names of pods.

use std::sync::Arc;

use super::super::gpu::GpuProvider;
use super::super::{ObjectSelection, Query, ValuesOf};
use aggregated_apiserver::refusal::Refusal;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::explain::{Explanation, HOLDERS_UNNAMED};
use gpu_metrics::signal::SignalId;
use scene::{Scene, policy};

#[allow(dead_code, reason = "tests of other crates use the rest of it")]
#[path = "../../../crates/gpu-metrics/tests/numbers/scene.rs"]
mod scene;

const MEAN: &str = "gpu_memory_utilization";

/// A provider over the snapshot of a scene.
struct Asked {
    provider: GpuProvider,
    now: Timestamp,
}

fn asked(mut scene: Scene) -> Asked {
    let snapshot = scene.snapshot();
    let provider = GpuProvider::new(&snapshot.metrics);
    let now = snapshot.frame.now;
    provider.publish(Arc::new(snapshot));
    Asked { provider, now }
}

impl Asked {
    fn query(&self, of: ValuesOf, metric: &str, by: &str) -> Query {
        Query {
            of,
            metric: metric.to_owned(),
            selector: Selector::parse(by).unwrap(),
            now: self.now,
            user: String::new(),
        }
    }

    /// Explains the mean of an object such as `pods n/p` or `nodes x`.
    fn explain(&self, object: &str, names_pods: bool) -> Explanation {
        let (resource, name) = object.split_once(' ').unwrap();
        let parts = name.split_once('/');
        let (namespace, name) = (parts.map(|it| it.0), parts.map_or(name, |it| it.1));
        let of = ValuesOf::Objects(ObjectSelection::named(resource, namespace, name));
        let query = self.query(of, MEAN, "");
        self.provider.explain(&query, names_pods).unwrap()
    }

    fn value(&self, of: ValuesOf, metric: &str, by: &str) -> Result<f64, Refusal> {
        let query = self.query(of, metric, by);
        let values = self.provider.values(&query)?;
        Ok(super::numbered(&values)[0].1.value)
    }
}

/// The pods `a/secret-a` and `b/secret-b` share GPU A of node-1; `a/waiting` has no series.
/// Also returns the time of the newest sample.
pub(crate) fn shared_gpu() -> (Arc<GpuProvider>, Timestamp) {
    let asked = sharing(&["a/secret-a", "a/waiting", "b/secret-b"], &["a", "b"]);
    (Arc::new(asked.provider), asked.now)
}

/// A cluster of these pods, in which the pods `secret-…` of these namespaces share GPU A of node-1.
fn sharing(pods: &[&str], namespaces: &[&str]) -> Asked {
    let pods: Vec<_> = pods.iter().map(|pod| (*pod, None)).collect();
    let mut scene = Scene::new(policy(60)).cluster(&pods);
    for it in namespaces {
        let labels =
            format!("UUID=A Hostname=node-1 exported_namespace={it} exported_pod=secret-{it}");
        scene = scene.mcu(&labels, "50 50 50 50");
    }
    asked(scene)
}

/// Two GPUs held by `dynamo-system/worker-0` and one unheld GPU over two and a half minutes:
/// utilization, memory and power of each. Series without `exported_` labels name the
/// exporter's own pod. Also returns the time of the newest sample.
pub(crate) fn three_gpus() -> (Arc<GpuProvider>, Timestamp) {
    let mut scene = Scene::new(policy(60));
    for (signal, values) in [
        (SignalId::GPU_UTIL, ["90 ", "60 ", "0 "]),
        (SignalId::FB_USED, ["4000 ", "2000 ", "3 "]),
        (SignalId::POWER_USAGE, ["300 ", "340 ", "50 "]),
    ] {
        for (gpu, value) in values.into_iter().enumerate() {
            let held = match gpu {
                2 => "",
                _ => "exported_namespace=dynamo-system exported_pod=worker-0",
            };
            let labels = format!(
                "UUID=GPU-{gpu} gpu={gpu} Hostname=node-1 job=dcgm instance=i namespace=gpu-operator \
                 pod=exporter {held}"
            );
            scene = scene.signal(signal, &labels, &value.repeat(11));
        }
    }
    let asked = asked(scene);
    (Arc::new(asked.provider), asked.now)
}

fn pod(name: &str) -> ValuesOf {
    ValuesOf::Objects(ObjectSelection::named("pods", Some("n"), name))
}

fn external(namespace: &str) -> ValuesOf {
    ValuesOf::Namespace(namespace.to_owned())
}

#[test]
fn every_namespace_has_the_average_of_the_original_and_no_pod_has() {
    let scene = Scene::new(policy(60)).mcu("UUID=A namespace=n pod=p", "40 40 40 40");
    let asked = asked(scene);
    let namespace = ValuesOf::Objects(ObjectSelection::named("namespaces", None, "whatever"));
    let original = "avg_GPU_utilization";
    assert_eq!(asked.value(namespace, original, ""), Ok(40.0));
    let of_pod = asked.value(pod("p"), original, "");
    assert_eq!(of_pod, Err(Refusal::NoSuchPath));
    let found = asked.value(external("x"), "avg_gpu_utilization", "");
    assert_eq!(found, Ok(40.0));
}

#[test]
fn a_value_that_ended_has_its_reason() {
    let labels = |gpu| format!("UUID={gpu} job=d instance=i{gpu} namespace=n pod=p{gpu}");
    let scene = Scene::new(policy(60))
        .cluster(&[("n/pA", None), ("n/pB", None)])
        .mcu(&labels('A'), "40 40 40 40 40")
        .mcu(&labels('B'), &"40 ".repeat(13));
    let reason = asked(scene).value(pod("pA"), MEAN, "").unwrap_err();
    let said = format!("{reason:?}");
    let silent = "1 of 1 GPUs have been silent since 2023-11-14T22:16:05Z";
    assert!(said.contains(silent), "{said}");
}

#[test]
fn pods_of_other_namespaces_are_counted_and_never_named() {
    let answers = sharing(&["a/secret-a", "b/secret-b"], &["a", "b", "c"]);
    for (object, named) in [
        ("pods a/secret-a", 1),
        ("namespaces a", 1),
        ("nodes node-1", 0),
    ] {
        let explanation = answers.explain(object, false);
        let text = serde_json::to_string(&explanation).unwrap();
        assert!(!text.contains("secret-b"), "{object}: {text}");
        assert_eq!(explanation.devices[0].pods.len(), named, "{object}: {text}");
    }
    let own = answers.explain("pods a/secret-a", false);
    // The deleted pod `c` held it; the inventory does not contain `c`.
    assert_eq!(own.devices[0].shared_with, 1);
    let node = answers.explain("nodes node-1", false);
    assert_eq!(node.devices[0].shared_with, 2);
    assert!(node.notes.iter().any(|note| note == HOLDERS_UNNAMED));
    let node = answers.explain("nodes node-1", true);
    assert_eq!(node.devices[0].pods, ["a/secret-a", "b/secret-b"]);
    assert_eq!(node.devices[0].shared_with, 0);
    let query = answers.query(external("a"), "cluster_gpu_memory_utilization", "");
    let cluster = answers.provider.explain(&query, true).unwrap();
    let text = serde_json::to_string(&cluster).unwrap();
    let is_unnamed = cluster.devices.is_empty() && !text.contains("secret");
    assert!(is_unnamed, "{text}");
    let counted = "devices counted and not listed: 1";
    assert!(cluster.notes.iter().any(|note| note.contains(counted)));
}

#[test]
fn an_unknown_name_is_reported() {
    let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    let answers = asked(scene.mcu(labels, "50 50 50 50"));
    for (object, said) in [
        ("pods n/q", "there is no pod q in namespace n"),
        ("pods m/p", "there is no pod p in namespace m"),
        ("deployments.apps n/q", "belongs to deployments.apps q"),
    ] {
        let explanation = answers.explain(object, false);
        let reason = explanation.no_value.unwrap();
        assert!(reason.contains(said), "{object}: {reason}");
    }
}
