//! Replicas that cannot start.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::read;
use crate::starts;
use apimachinery::time::Timestamp;
use gpu_metrics::devices::DevicesOf;
use gpu_metrics::resources::GpuResources;

/// 1970-01-01T00:10:00Z.
const NOW: Timestamp = Timestamp::from_secs(600);

fn pod(name: &str, spec: &Value, since: &str, reason: &str) -> Pod {
    read(json!({
        "metadata": {
            "name": name, "namespace": "team", "labels": {"pod-template-hash": "7d4b"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "infer-7d4b", "uid": "1", "controller": true}],
        },
        "spec": spec,
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason,
            "lastTransitionTime": since, "message": format!("0/3 nodes are available: 3 Insufficient nvidia.com/gpu ({name})")}]},
    }))
}

fn gpus(count: u32) -> Value {
    let limits = json!({"nvidia.com/gpu": count.to_string(), "cpu": "4"});
    json!({"containers": [{"name": "main", "resources": {"limits": limits}}]})
}

#[test]
fn gm517_counts_pods_with_gpus_that_wait_for_a_node_and_has_the_text_of_the_oldest() {
    let claim = json!({"containers": [{"name": "main"}], "resourceClaims": [{"name": "gpu"}]});
    let cpu = json!({"containers": [{"name": "main"}]});
    let pods = [
        pod("a", &gpus(1), "1970-01-01T00:05:00Z", "Unschedulable"),
        pod("b", &gpus(2), "1970-01-01T00:01:00Z", "Unschedulable"),
        pod("c", &claim, "1970-01-01T00:02:00Z", "Unschedulable"),
        pod("new", &gpus(1), "1970-01-01T00:09:00Z", "Unschedulable"),
        pod("gated", &gpus(1), "1970-01-01T00:01:00Z", "SchedulingGated"),
        pod("cpu", &cpu, "1970-01-01T00:01:00Z", "Unschedulable"),
    ];
    let found = starts::unscheduled(&pods, &GpuResources::default(), NOW);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&*found[0].code, &*found[0].object),
        ("GM517", "Deployment team/infer")
    );
    let said = "3 replicas cannot start: the scheduler has found no node for up to 9m: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu (b)";
    assert_eq!(found[0].message, said);
    let others = GpuResources::new(vec!["example.com/gpu".to_owned()]);
    let found = starts::unscheduled(&pods[..2], &others, NOW);
    assert_eq!(found, [], "these are no GPUs there");
}

#[test]
fn gm517_is_also_a_quota_that_stops_replicas() {
    let deployment = |status: &str| -> Deployment {
        let told = "pods \"infer-7d4b-x\" is forbidden: exceeded quota: gpus";
        read(json!({
            "metadata": {"name": "infer", "namespace": "team"},
            "spec": {"replicas": 6, "selector": {}, "template": {}},
            "status": {"replicas": 3, "conditions": [{"type": "ReplicaFailure", "status": status, "message": told}]},
        }))
    };
    assert_eq!(starts::not_created(&deployment("False")), None);
    let found = starts::not_created(&deployment("True")).unwrap();
    let said =
        "3 of 6 replicas cannot start: pods \"infer-7d4b-x\" is forbidden: exceeded quota: gpus";
    assert_eq!(
        (&*found.object, &*found.message),
        ("Deployment team/infer", said)
    );
}

#[test]
fn holders_of_idle_gpus_are_named_by_their_workloads() {
    let of = |namespace: &str, name: &str, workload: Option<&str>, idle: f64| DevicesOf {
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
        workloads: workload.map(str::to_owned).into_iter().collect(),
        values: [("gpu_idle_count".to_owned(), idle)].into(),
        ..DevicesOf::default()
    };
    let notebook = Some("statefulsets.apps/notebook");
    let pods = [
        of("team-a", "busy", Some("deployments.apps/busy"), 0.0),
        of("team-b", "notebook-0", notebook, 8.0),
        of("team-b", "notebook-1", notebook, 8.0),
        of("team-c", "shell", None, 2.0),
    ];
    let said = "18 GPUs that pods hold are idle: 16 of team-b statefulsets.apps/notebook, 2 of team-c pods/shell";
    assert_eq!(starts::idle_holders(&pods).as_deref(), Some(said));
    assert_eq!(starts::idle_holders(&pods[..1]), None);
}
