//! A LeaderWorkerSet: a leader and workers as its controller owns them, and an autoscaler of the
//! set by the GPUs of all of them. The controller itself is not there.

use serde_json::{Value, json};

use super::lab::{APP, HOME, Lab, NAME, PATIENCE, TEAM};
use super::workload::{behavior, on_object, target};
use crate::controlplane::ControlPlane;
use crate::program::{eventually, ok_if};

const GROUP: &str = "leaderworkerset.x-k8s.io";
const SET: &str = "leaderworkersets.leaderworkerset.x-k8s.io";

/// The scale of the upstream definition, without its schema.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": SET, "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/lws",
        }},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "LeaderWorkerSet", "plural": "leaderworkersets", "singular": "leaderworkerset"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.hpaPodSelector",
                }},
            }],
        },
    })
}

/// A StatefulSet of pods with a GPU each.
fn stateful_set(name: &str, role: &str, replicas: u32, owner: &Value) -> Value {
    let labels = json!({"app": APP, "role": role});
    let container = json!({
        "name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": TEAM, "ownerReferences": [{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": true,
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        }]},
        "spec": {
            "serviceName": "llama", "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

/// Lets the server list the sets, as `rbac.extraRules` does.
fn grant(plane: &ControlPlane) {
    let resource = format!("--resource={SET}");
    let account = format!("--serviceaccount={HOME}:{NAME}");
    plane.kubectl(&[
        "create",
        "clusterrole",
        "sets",
        "--verb=get,list,watch",
        &resource,
    ]);
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "sets",
        "--clusterrole=sets",
        &account,
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_with_a_leader_scales_by_the_gpus_of_all_its_pods() {
    let lab = Lab::start().await;
    lab.plane.apply(&definition());
    grant(&lab.plane);
    let known = ["wait", "--for=condition=Established", "crd", SET];
    lab.plane.kubectl(&known);
    lab.plane.apply(&json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "LeaderWorkerSet",
        "metadata": {"name": "llama", "namespace": TEAM},
        "spec": {"replicas": 1},
        "status": {"replicas": 1, "hpaPodSelector": "role=leader"},
    }));
    let set = lab.plane.object(&[SET, "llama", "-n", TEAM]);
    lab.plane.apply(&stateful_set("llama", "leader", 1, &set));
    let has = |count: usize| {
        eventually("the pods", PATIENCE, || {
            let pods = lab.plane.pods(TEAM);
            ok_if(pods.len() == count, &pods)
        });
    };
    has(1);
    let mut leader = lab.plane.object(&["pod", "llama-0", "-n", TEAM]);
    leader["apiVersion"] = json!("v1");
    lab.plane
        .apply(&stateful_set("llama-0", "worker", 2, &leader));
    has(3);

    lab.gpus.work(40);
    let of_set = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/{SET}/llama/gpu_memory_utilization_sum"
    );
    lab.await_values(&of_set, 1, "120");

    let api_version = format!("{GROUP}/v1");
    let described = json!({"apiVersion": api_version, "kind": "LeaderWorkerSet", "name": "llama"});
    let average = target("AverageValue", "100");
    lab.plane.apply(&json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "llama", "namespace": TEAM},
        "spec": {
            "scaleTargetRef": described, "maxReplicas": 4,
            "metrics": [on_object("gpu_memory_utilization_sum", &described, &average)],
            "behavior": behavior(std::time::Duration::ZERO),
        },
    }));
    eventually("two replicas", PATIENCE, || {
        let set = lab.plane.object(&[SET, "llama", "-n", TEAM]);
        ok_if(set["spec"]["replicas"] == 2, &set)
    });
}
