//! Large numbers of services and pods.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::snapshot;
use super::super::state::{Shared, Writer};
use super::fixture::{owners_of, pod, put};
use gpu_metrics::inventory::Inventory;

#[derive(Default)]
struct Cluster(Arc<Shared>);

impl Cluster {
    fn pod(&self, pod: &Value) {
        let shared = Arc::clone(&self.0);
        put(&Writer::new(shared, |tables| Some(&mut tables.pods)), pod);
    }

    fn service(&self, name: &str, selector: &Value) {
        self.put_service(&json!({"metadata": {"name": name, "namespace": "ml"},
                                 "spec": {"selector": selector}}));
    }

    fn put_service(&self, service: &Value) {
        let shared = Arc::clone(&self.0);
        let services = Writer::new(shared, |tables| Some(&mut tables.services));
        put(&services, service);
    }

    fn inventory(&self) -> Inventory {
        snapshot::inventory(&mut self.0.known.lock(), Instant::now(), Duration::ZERO).0
    }
}

/// A pod that requests no GPU.
fn plain(name: &str) -> Value {
    let mut plain = pod(name);
    plain["spec"]["containers"] = json!([{"name": "c"}]);
    plain
}

#[test]
fn services_own_the_pods_that_they_select() {
    let cluster = Cluster::default();
    cluster.pod(&pod("a"));
    let mut other = pod("b");
    other["metadata"]["labels"] = json!({"app": "train", "tier": "x"});
    cluster.pod(&other);
    let mut elsewhere = pod("c");
    elsewhere["metadata"]["namespace"] = "other".into();
    cluster.pod(&elsewhere);
    cluster.service("infer", &json!({"app": "infer"}));
    cluster.service("both", &json!({"tier": "x", "app": "train"}));
    cluster.service("neither", &json!({"tier": "x", "app": "infer"}));
    cluster.service("none", &json!(null));
    let inventory = cluster.inventory();
    assert_eq!(owners_of(&inventory, "a"), ["services/infer"]);
    assert_eq!(owners_of(&inventory, "b"), ["services/both"]);
    assert_eq!(inventory.workloads.len(), 2);
    cluster.service("infer", &json!({"app": "train"}));
    let inventory = cluster.inventory();
    assert!(owners_of(&inventory, "a").is_empty());
    assert_eq!(owners_of(&inventory, "b").len(), 2);
}

#[test]
fn an_unscheduled_pod_without_a_gpu_request_has_no_services() {
    let cluster = Cluster::default();
    cluster.service("infer", &json!({"app": "infer"}));
    let mut pending = plain("pending");
    pending["spec"]["nodeName"] = Value::Null;
    pending["status"] = json!({"phase": "Pending"});
    cluster.pod(&pending);
    cluster.pod(&plain("shares"));
    cluster.pod(&pod("asks"));
    let inventory = cluster.inventory();
    assert!(owners_of(&inventory, "pending").is_empty());
    // The exporter's labels may still attribute a GPU to it.
    assert_eq!(owners_of(&inventory, "shares"), ["services/infer"]);
    assert_eq!(owners_of(&inventory, "asks"), ["services/infer"]);
}

#[test]
fn a_pod_of_many_services_has_the_first_by_name() {
    let cluster = Cluster::default();
    for number in 0..50 {
        cluster.service(&format!("b{number:03}"), &json!({"app": "infer"}));
    }
    cluster.service("a-one", &json!({"app": "infer", "tier": "x"}));
    let mut one = pod("a");
    one["metadata"]["labels"]["tier"] = "x".into();
    cluster.pod(&one);
    let owners = owners_of(&cluster.inventory(), "a");
    assert_eq!(owners.len(), 32);
    assert_eq!(owners[..2], ["services/a-one", "services/b000"]);
    assert!(cluster.0.known.lock().told_services);
}

#[test]
fn thousands_of_services_and_pods_of_one_namespace_stay_within_limits() {
    let cluster = Cluster::default();
    for number in 0..3000 {
        let app = json!({"app": "infer"});
        let alike = json!({"app": "infer", (format!("l{}", number % 40)): "x"});
        let selector = if number % 2 == 0 { app } else { alike };
        cluster.service(&format!("s{number:04}"), &selector);
        let mut one = pod(&format!("p{number:04}"));
        one["metadata"]["labels"]["number"] = number.to_string().into();
        for label in 0..40 {
            one["metadata"]["labels"][format!("l{label}")] = "x".into();
        }
        cluster.pod(&one);
    }
    let inventory = cluster.inventory();
    let edges: usize = inventory.pods.iter().map(|pod| pod.owners.len()).sum();
    assert!(edges <= 3000 * 32, "{edges}");
    assert_eq!(owners_of(&inventory, "p2999").len(), 32);
}

#[test]
fn services_that_no_label_distinguishes_end_only_the_comparisons() {
    let cluster = Cluster::default();
    // Every pair is in half of the selectors.
    for number in 0..4096_u32 {
        let bit = |bit: u32| (format!("b{bit}"), json!((number >> bit & 1).to_string()));
        let selector: serde_json::Map<_, _> = (0..12).map(bit).collect();
        cluster.service(&format!("s{number:04}"), &Value::Object(selector));
    }
    for number in 0..300_u32 {
        let mut one = pod(&format!("p{number:03}"));
        for bit in 0..11 {
            one["metadata"]["labels"][format!("b{bit}")] = (number >> bit & 1).to_string().into();
        }
        cluster.pod(&one);
    }
    let mut elsewhere = pod("other");
    elsewhere["metadata"]["namespace"] = "other".into();
    cluster.pod(&elsewhere);
    let service = json!({"metadata": {"name": "s", "namespace": "other"},
                         "spec": {"selector": {"app": "infer"}}});
    cluster.put_service(&service);
    let inventory = cluster.inventory();
    assert!(cluster.0.known.lock().told_services);
    let other = inventory.pod("other", "other").unwrap();
    assert_eq!(other.owners.len(), 1);
}
