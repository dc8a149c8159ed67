use std::time::Duration;

use serde_json::json;

use super::fixture::{PODS, Scene, eventually, object, owned, owners_of, pod};
use crate::testing::fake_kube::{FakeKube, Fault};
use gpu_metrics::inventory::Inventory;

const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";

/// A pod of a Deployment.
fn deployment(kube: &FakeKube) {
    kube.serve("apps/v1", "replicasets", "ReplicaSet");
    kube.serve("apps/v1", "deployments", "Deployment");
    kube.put(DEPLOYMENTS, object("infer"));
    let set = owned(object("infer-1"), "apps/v1", "Deployment", "infer");
    kube.put(REPLICA_SETS, set);
    kube.put(PODS, owned(pod("a"), "apps/v1", "ReplicaSet", "infer-1"));
}

const BOTH: [&str; 2] = ["replicasets.apps/infer-1", "deployments.apps/infer"];

#[tokio::test]
async fn controllers_are_followed_upward() {
    let scene = Scene::start(deployment).await;
    let has_labels = |now: &Inventory| now.workloads.iter().all(|it| !it.labels.is_empty());
    let are_listed = |now: &Inventory| owners_of(now, "a") == BOTH && has_labels(now);
    let inventory = scene.until(are_listed).await;
    let workload = &inventory.workloads[1];
    assert_eq!(&*workload.kind.kind, "Deployment");
    assert_eq!(&*workload.kind.api_version, "apps/v1");
    assert_eq!(workload.labels.get("of"), Some("infer"));
}

#[tokio::test]
async fn only_kinds_that_own_gpu_pods_are_watched() {
    let scene = Scene::start(|kube| {
        deployment(kube);
        kube.serve("batch/v1", "jobs", "Job");
        let mut idle = owned(pod("b"), "batch/v1", "Job", "sweep");
        idle["spec"]["containers"] = json!([{"name": "c"}]);
        kube.put(PODS, idle);
    })
    .await;
    scene.until(|now| owners_of(now, "a").len() == 2).await;
    assert!(scene.kube.queries("/apis/batch/v1/jobs").is_empty());
    let mut busy = owned(pod("b"), "batch/v1", "Job", "sweep");
    busy["metadata"]["uid"] = "again".into();
    scene.kube.put("/apis/batch/v1/jobs", object("sweep"));
    scene.kube.put(PODS, busy);
    let has_job = |now: &Inventory| owners_of(now, "b") == ["jobs.batch/sweep"];
    scene.until(has_job).await;
}

#[tokio::test]
async fn a_version_that_is_not_served_any_more_is_replaced_by_the_preferred_one() {
    let scene = Scene::start(|kube| {
        kube.serve("ray.io/v1", "rayclusters", "RayCluster");
        kube.put("/apis/ray.io/v1/rayclusters", object("cluster"));
        let of_alpha = owned(pod("a"), "ray.io/v1alpha1", "RayCluster", "cluster");
        kube.put(PODS, of_alpha);
    })
    .await;
    let has_owner = |now: &Inventory| owners_of(now, "a") == ["rayclusters.ray.io/cluster"];
    scene.until(has_owner).await;
}

#[tokio::test]
async fn the_chain_of_owners_ends_at_a_forbidden_kind_and_the_rule_is_reported() {
    let scene = Scene::start(|kube| {
        deployment(kube);
        kube.fault(DEPLOYMENTS, Fault::Forbidden);
        kube.serve("ray.io/v1", "rayclusters", "RayCluster");
        kube.fault("/apis/ray.io/v1/rayclusters", Fault::Forbidden);
        kube.put(PODS, owned(pod("b"), "ray.io/v1", "RayCluster", "cluster"));
    })
    .await;
    // The name is known from the reference.
    let are_known = |now: &Inventory| {
        owners_of(now, "a") == BOTH && owners_of(now, "b") == ["rayclusters.ray.io/cluster"]
    };
    let inventory = scene.until(are_known).await;
    assert!(inventory.workloads.iter().any(|w| w.labels.is_empty()));
    let rule = r#"resources: [\"rayclusters\"]"#;
    let trouble = || format!("{:?}", scene.trouble("rayclusters.ray.io"));
    eventually(rule, || trouble().contains(rule)).await;
    scene.ready().await;
}

#[tokio::test]
async fn kinds_that_are_not_served_or_have_invalid_names_cause_one_read_of_discovery() {
    let scene = Scene::start(|kube| {
        kube.put(PODS, owned(pod("a"), "made.up/v1", "Nothing", "x"));
        kube.put(PODS, owned(pod("b"), "../../api/v1", "Secret", "x"));
        kube.put(PODS, owned(pod("c"), "v1?watch=1", "Pod", "x"));
        let node = json!({"resource": "nodes", "responseKind": {"kind": "Node"},
                          "scope": "Cluster", "verbs": ["list", "watch"]});
        let version = json!({"version": "v1", "resources": [node]});
        kube.document("/api", json!({"items": [{"versions": [version]}]}));
        kube.put(PODS, owned(pod("d"), "v1", "Node", "n1"));
    })
    .await;
    let inventory = scene.until_pods(&["a", "b", "c", "d"]).await;
    assert!(inventory.workloads.is_empty(), "{:?}", inventory.workloads);
    assert!(scene.kube.queries("/apis").len() < 4, "one reading for all");
    assert!(scene.registry.is_ready());
}

#[tokio::test]
async fn an_owner_of_the_same_name_that_came_later_is_another_one() {
    let scene = Scene::start(|kube| {
        deployment(kube);
        let mut later = object("infer-1");
        later["metadata"]["uid"] = "later".into();
        kube.put(REPLICA_SETS, later);
    })
    .await;
    let is_listed = || {
        let mut watches = scene.registry.watches().into_iter();
        watches.any(|it| &*it.name == "replicasets.apps" && it.complete)
    };
    eventually("listed", is_listed).await;
    // Enough time for a snapshot.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(owners_of(&scene.inventory(), "a").is_empty());
}

#[tokio::test]
async fn cyclic_references_end_and_pods_of_a_controlling_pod_have_its_controller() {
    let scene = Scene::start(|kube| {
        deployment(kube);
        let cyclic = owned(object("infer"), "apps/v1", "ReplicaSet", "infer-1");
        kube.put(DEPLOYMENTS, cyclic);
        kube.put(PODS, owned(pod("executor"), "v1", "Pod", "a"));
    })
    .await;
    let are_followed = |now: &Inventory| owners_of(now, "a").len() == 8;
    let inventory = scene.until(are_followed).await;
    let chain = owners_of(&inventory, "a");
    assert_eq!(chain.len(), 8);
    assert_eq!(chain[..2], BOTH);
    assert_eq!(owners_of(&inventory, "executor")[..2], BOTH);
}

#[tokio::test]
async fn a_kind_that_is_no_longer_served_has_no_objects() {
    let scene = Scene::start(deployment).await;
    scene.until(|now| owners_of(now, "a").len() == 2).await;
    scene.kube.fault(REPLICA_SETS, Fault::Status(404));
    scene.kube.document("/apis", json!({"items": []}));
    scene.kube.cut_watches();
    scene.until(|now| owners_of(now, "a").is_empty()).await;
}
