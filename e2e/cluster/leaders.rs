//! A LeaderWorkerSet, and a DisaggregatedSet with two roles: leaders and workers as their
//! controllers own them, and autoscalers by the GPUs of all of them. The controllers themselves
//! are not there.

use serde_json::{Value, json};

use super::lab::{APP, HOME, Lab, NAME, PATIENCE, TEAM};
use super::operators::block;
use super::workload::{behavior, on_object, on_pods, target};
use crate::controlplane::ControlPlane;
use crate::program::{eventually, ok_if};
use crate::prometheus::{Storage, Store};

const GROUP: &str = "leaderworkerset.x-k8s.io/v1";
const SET: &str = "leaderworkersets.leaderworkerset.x-k8s.io";

/// The group of sets with roles (kubernetes-sigs/lws v0.10.0, `api/disaggregatedset`).
const ROLES_GROUP: &str = "disaggregatedset.x-k8s.io/v1";
const ROLES_SET: &str = "disaggregatedsets.disaggregatedset.x-k8s.io";
const SCALER: &str = "disaggregatedsetrolescalers.disaggregatedset.x-k8s.io";

/// The labels of a role's pods, leaders among them (`pkg/utils/disaggregatedset`).
const OF_SET: &str = "disaggregatedset.x-k8s.io/name";
const OF_ROLE: &str = "disaggregatedset.x-k8s.io/role";
const PLACE: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// Defines a kind without the schema of the upstream definition, with its scale.
pub(super) fn define(plane: &ControlPlane, (group, kind): (&str, &str), selector: &str) {
    let (group, version) = group.split_once('/').unwrap();
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let name = format!("{plural}.{group}");
    plane.apply(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/lws",
        }},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": selector,
                }},
            }],
        },
    }));
    plane.kubectl(&["wait", "--for=condition=Established", "crd", &name]);
}

/// An object of such a kind with one replica, and its owner.
pub(super) fn object((group, kind): (&str, &str), name: &str, owner: Option<&Value>) -> Value {
    json!({
        "apiVersion": group, "kind": kind,
        "metadata": {
            "name": name, "namespace": TEAM,
            "ownerReferences": owner.map(|owner| [reference(owner)]),
        },
        "spec": {"replicas": 1}, "status": {"replicas": 1},
    })
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": true,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

/// A StatefulSet of pods with a GPU each.
fn stateful_set(name: &str, labels: &Value, replicas: u32, owner: &Value) -> Value {
    let mut labels = labels.clone();
    labels["app"] = json!(APP);
    let container = json!({
        "name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": TEAM, "ownerReferences": [reference(owner)]},
        "spec": {
            "serviceName": "llama", "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

/// A leader of a set, and its workers, which the leader owns.
fn group(plane: &ControlPlane, set: &str, labels: [&Value; 2], workers: u32) {
    let owner = plane.object(&[SET, set, "-n", TEAM]);
    plane.apply(&stateful_set(set, labels[0], 1, &owner));
    let pod = format!("{set}-0");
    eventually("a leader", PATIENCE, || {
        ok_if(plane.pods(TEAM).contains(&pod), &plane.pods(TEAM))
    });
    let mut leader = plane.object(&["pod", &pod, "-n", TEAM]);
    leader["apiVersion"] = json!("v1");
    plane.apply(&stateful_set(&pod, labels[1], workers, &leader));
}

/// Lets the server list these kinds, as `rbac.extraRules` does.
fn grant(plane: &ControlPlane, kinds: &[&str]) {
    let resources = format!("--resource={}", kinds.join(","));
    let account = format!("--serviceaccount={HOME}:{NAME}");
    let verbs = "--verb=get,list,watch";
    plane.kubectl(&["create", "clusterrole", "sets", verbs, &resources]);
    let binding = ["create", "clusterrolebinding", "sets", "--clusterrole=sets"];
    plane.kubectl(&[&binding[..], &[&account]].concat());
}

/// The sum over the GPUs of an object.
fn sum_of(resource: &str, name: &str) -> String {
    format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/{resource}/{name}/gpu_memory_utilization_sum"
    )
}

/// Waits until an autoscaler has set the replicas of an object to two.
fn await_two(plane: &ControlPlane, resource: &str, name: &str) {
    eventually("two replicas", PATIENCE, || {
        let target = plane.object(&[resource, name, "-n", TEAM]);
        let hpa = plane.object(&["hpa", name, "-n", TEAM]);
        ok_if(target["spec"]["replicas"] == 2, &hpa["status"])
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_with_a_leader_scales_by_the_gpus_of_all_its_pods() {
    let lab = Lab::start().await;
    let kind = (GROUP, "LeaderWorkerSet");
    define(&lab.plane, kind, ".status.hpaPodSelector");
    grant(&lab.plane, &[SET]);
    let mut set = object(kind, "llama", None);
    set["status"]["hpaPodSelector"] = json!("role=leader");
    lab.plane.apply(&set);
    let labels = ["leader", "worker"].map(|role| json!({"role": role}));
    group(&lab.plane, "llama", [&labels[0], &labels[1]], 2);

    lab.gpus.work(40);
    lab.await_values(&sum_of(SET, "llama"), 1, "120");

    let described = json!({"apiVersion": GROUP, "kind": "LeaderWorkerSet", "name": "llama"});
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
    await_two(&lab.plane, SET, "llama");
}

/// The name of a role's LeaderWorkerSet is that of the set, the slice and the revision, and the
/// role.
const REVISION: &str = "llama-0-6ad7c921";

/// Makes the objects of a role: its scaler, its LeaderWorkerSet, a leader and workers.
fn add_role(plane: &ControlPlane, role: &str, workers: u32) {
    let set = plane.object(&[ROLES_SET, "llama", "-n", TEAM]);
    let scaler = (ROLES_GROUP, "DisaggregatedSetRoleScaler");
    let mut scaler = object(scaler, &format!("llama-{role}"), Some(&set));
    let selector = format!("{OF_SET}=llama,{OF_ROLE}={role},{PLACE}=0");
    scaler["status"]["selector"] = json!(selector);
    plane.apply(&scaler);
    let child = format!("{REVISION}-{role}");
    plane.apply(&object((GROUP, "LeaderWorkerSet"), &child, Some(&set)));
    let labels = ["0", "1"].map(|place| json!({OF_SET: "llama", OF_ROLE: role, PLACE: place}));
    group(plane, &child, [&labels[0], &labels[1]], workers);
}

/// Gives the series the role of their pod, as dcgm-exporter does with labels of pods (NVIDIA,
/// `internal/pkg/transformation/kubernetes.go`, `getPodLabels`).
async fn label_roles(lab: &mut Lab) -> Store {
    let scrapes = lab.exporters.scrapes();
    let config = format!(
        "{scrapes}  metric_relabel_configs:\n  \
         - {{source_labels: [exported_pod], regex: '{REVISION}-([a-z]+)-.+', target_label: {}}}\n",
        "disaggregatedset_x_k8s_io_role"
    );
    let store = Storage::new().start(&config).await;
    lab.stand_in = Some(store.url.clone());
    lab.server = None;
    lab.start_server();
    lab.await_available();
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_of_a_set_scales_by_the_gpus_of_its_leaders_and_workers() {
    let mut lab = Lab::start().await;
    let kind = (ROLES_GROUP, "DisaggregatedSet");
    define(
        &lab.plane,
        (GROUP, "LeaderWorkerSet"),
        ".status.hpaPodSelector",
    );
    define(&lab.plane, kind, ".status.selector");
    define(
        &lab.plane,
        (ROLES_GROUP, "DisaggregatedSetRoleScaler"),
        ".status.selector",
    );
    grant(&lab.plane, &[SET, ROLES_SET]);
    let _store = label_roles(&mut lab).await;
    lab.plane.apply(&object(kind, "llama", None));
    add_role(&lab.plane, "prefill", 2);
    add_role(&lab.plane, "decode", 1);

    lab.gpus.work(40);
    let of_set = sum_of(ROLES_SET, "llama");
    lab.await_values(&of_set, 1, "200");
    for (role, sum) in [("prefill", "120"), ("decode", "80")] {
        let selector = format!("disaggregatedset_x_k8s_io_role%3D{role}");
        let of_role = format!("{of_set}?metricLabelSelector={selector}");
        lab.await_values(&of_role, 1, sum);
        lab.await_values(&sum_of(SET, &format!("{REVISION}-{role}")), 1, sum);
    }

    // The scaler's pods are the leaders.
    let page = block("kind: DisaggregatedSetRoleScaler").replace("\"400\"", "\"100\"");
    let mut spec: Value = serde_saphyr::from_str(&page).unwrap();
    spec["maxReplicas"] = json!(4);
    spec["behavior"] = behavior(std::time::Duration::ZERO);
    let metrics = spec["metrics"].as_array_mut().unwrap();
    metrics.push(on_pods("gpu_memory_utilization", "100"));
    lab.plane.apply(&json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "llama-prefill", "namespace": TEAM}, "spec": spec,
    }));
    await_two(&lab.plane, SCALER, "llama-prefill");
    eventually("values of the role and its leader", PATIENCE, || {
        let hpa = lab.plane.object(&["hpa", "llama-prefill", "-n", TEAM]);
        let of = |at: usize, kind: &str| {
            let metric = &hpa["status"]["currentMetrics"][at][kind];
            metric["current"]["averageValue"].clone()
        };
        ok_if([of(0, "object"), of(1, "pods")] == ["120", "40"], &hpa)
    });
    let decode = lab.plane.object(&[SCALER, "llama-decode", "-n", TEAM]);
    assert_eq!(decode["spec"]["replicas"], 1);
}
