//! The autoscalers of the manual for operators that serve models: llm-d, Dynamo, and sets with
//! leaders and workers. The controllers of the operators are not there; their objects are.

use serde_json::{Value, json};

use super::lab::{HOME, Lab, NAME, PATIENCE, TEAM};
use super::workload::{behavior, of_deployment, on_pods};
use crate::controlplane::ControlPlane;
use crate::manual;
use crate::program::{eventually, ok_if};
use crate::prometheus::{Storage, Store};

/// Their sections of the recipes.
const SECTIONS: [&str; 2] = [
    "An InferencePool",
    "llm-d, KServe, Dynamo and sets with leaders",
];

const SET: &str = "leaderworkersets.leaderworkerset.x-k8s.io";
const ROLES_SET: &str = "disaggregatedsets.disaggregatedset.x-k8s.io";
const SCALER: &str = "disaggregatedsetrolescalers.disaggregatedset.x-k8s.io";
const ADAPTER: &str = "dynamographdeploymentscalingadapters.nvidia.com";

/// The name of a role's LeaderWorkerSet is that of the set, the slice and the revision, and the
/// role.
const REVISION: &str = "llama-0-6ad7c921";

/// The block of these sections that contains these words.
pub(super) fn block(words: &str) -> String {
    let texts = SECTIONS.map(|section| manual::texts("docs/recipes.md", section, "yaml"));
    let mut texts = texts.into_iter().flatten();
    let found = texts.find(|text| text.contains(words));
    found.unwrap_or_else(|| panic!("no block with {words}"))
}

fn define_kinds(plane: &ControlPlane) {
    plane.apply_yaml(include_str!("kinds.yaml"));
    for kind in [SET, ROLES_SET, SCALER, ADAPTER] {
        plane.kubectl(&["wait", "--for=condition=Established", "crd", kind]);
    }
}

/// Applies the autoscaler of a block of the manual, with another target.
fn autoscale(lab: &Lab, name: &str, block: &str, [from, to]: [&str; 2], more: &[Value]) {
    let text = block.replace(&format!("\"{from}\""), &format!("\"{to}\""));
    let mut spec: Value = serde_saphyr::from_str(&text).unwrap();
    spec["maxReplicas"] = json!(4);
    spec["behavior"] = behavior(std::time::Duration::ZERO);
    if spec["scaleTargetRef"].is_null() {
        spec["scaleTargetRef"] = of_deployment(name);
    }
    let metrics = spec["metrics"].as_array_mut().unwrap();
    metrics.extend_from_slice(more);
    lab.plane.apply(&json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": TEAM}, "spec": spec,
    }));
}

/// Waits until an autoscaler has set the replicas of an object.
fn await_replicas(lab: &Lab, kind: &str, name: &str, replicas: u32) {
    eventually(&format!("{replicas} of {name}"), PATIENCE, || {
        let target = lab.plane.object(&[kind, name, "-n", TEAM]);
        let hpa = lab.plane.object(&["hpa", name, "-n", TEAM]);
        ok_if(target["spec"]["replicas"] == replicas, &hpa["status"])
    });
}

/// Two requests wait in the pool `p1`, three at Dynamo's frontend. Each replica may have one.
pub(super) fn scale_by_the_manual(lab: &Lab) {
    define_kinds(&lab.plane);
    lab.plane.apply(&json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": {"name": "graph-decode", "namespace": TEAM},
        "spec": {"replicas": 1}, "status": {"replicas": 1, "selector": "app=none"},
    }));
    for (words, kind, name, replicas) in [
        ("kind: InferencePool", "deployment", "triton", 2),
        ("kind: DynamoGraph", ADAPTER, "graph-decode", 3),
    ] {
        let block = block(words).replace("name: llama}", "name: p1}");
        autoscale(lab, name, &block, ["5", "1"], &[]);
        await_replicas(lab, kind, name, replicas);
    }
}

/// Lets the server list the sets, as `rbac.extraRules` does.
fn grant(plane: &ControlPlane) {
    let resources = format!("--resource={SET},{ROLES_SET}");
    let verbs = "--verb=get,list,watch";
    plane.kubectl(&["create", "clusterrole", "sets", verbs, &resources]);
    plane.run(&format!(
        "create clusterrolebinding sets --clusterrole=sets --serviceaccount={HOME}:{NAME}"
    ));
}

/// Makes the objects of a role, each after its owner.
fn add_role(plane: &ControlPlane, role: &str, workers: u32) {
    let child = format!("{REVISION}-{role}");
    let leader = format!("{child}-0");
    let owners = [(ROLES_SET, "llama"), (SET, &*child), ("pod", &*leader)];
    for (text, (kind, owner)) in include_str!("role.yaml").split("---\n").zip(owners) {
        let id = eventually(owner, PATIENCE, || {
            let get = [
                "get",
                kind,
                owner,
                "-n",
                TEAM,
                "-o=jsonpath={.metadata.uid}",
            ];
            plane.kubectl_as(plane.kubeconfig(), &get)
        });
        let text = text.replace("UID", &id).replace("ROLE", role);
        let text = text.replace("CHILD", &child);
        plane.apply_yaml(&text.replace("WORKERS", &workers.to_string()));
    }
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
    lab.read_from(store.url.clone());
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_of_a_set_scales_by_the_gpus_of_its_leaders_and_workers() {
    let mut lab = Lab::start().await;
    define_kinds(&lab.plane);
    grant(&lab.plane);
    let _store = label_roles(&mut lab).await;
    lab.plane.apply(&json!({
        "apiVersion": "disaggregatedset.x-k8s.io/v1", "kind": "DisaggregatedSet",
        "metadata": {"name": "llama", "namespace": TEAM},
    }));
    add_role(&lab.plane, "prefill", 2);
    add_role(&lab.plane, "decode", 1);

    lab.gpus.work(40);
    let sum_of = |resource: &str, name: &str| {
        format!(
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/{resource}/{name}/gpu_memory_utilization_sum"
        )
    };
    let of_set = sum_of(ROLES_SET, "llama");
    lab.await_values(&of_set, 1, "200");
    for (role, sum) in [("prefill", "120"), ("decode", "80")] {
        let selector = format!("disaggregatedset_x_k8s_io_role%3D{role}");
        let of_role = format!("{of_set}?metricLabelSelector={selector}");
        lab.await_values(&of_role, 1, sum);
        lab.await_values(&sum_of(SET, &format!("{REVISION}-{role}")), 1, sum);
    }

    let scaled = format!("{REVISION}-decode");
    let page = block("kind: LeaderWorkerSet").replace("name: llama}", &format!("name: {scaled}}}"));
    autoscale(&lab, &scaled, &page, ["400", "50"], &[]);
    await_replicas(&lab, SET, &scaled, 2);

    // The scaler's pods are the leaders.
    let page = block("kind: DisaggregatedSetRoleScaler");
    let of_leaders = on_pods("gpu_memory_utilization", "100");
    autoscale(&lab, "llama-prefill", &page, ["400", "100"], &[of_leaders]);
    await_replicas(&lab, SCALER, "llama-prefill", 2);
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
