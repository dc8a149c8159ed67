use serde_json::json;

use super::fixture::{PODS, Scene, object, owned, owners_of, pod, until_told};
use crate::testing::fake_kube::{FakeKube, Fault};
use gpu_metrics::inventory::Inventory;

const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";

/// A pod of a Deployment.
fn deployment(kube: &FakeKube) {
    kube.serve("apps/v1", "replicasets", "ReplicaSet");
    kube.serve("apps/v1", "deployments", "Deployment");
    kube.put("/apis/apps/v1/deployments", object("infer"));
    let set = owned(object("infer-1"), "apps/v1", "Deployment", "infer");
    kube.put(REPLICA_SETS, set);
    kube.put(PODS, owned(pod("a"), "apps/v1", "ReplicaSet", "infer-1"));
}

#[tokio::test]
async fn controllers_are_followed_upward_until_their_kind_is_no_longer_served() {
    let scene = Scene::start(deployment).await;
    let both = ["replicasets.apps/infer-1", "deployments.apps/infer"];
    let has_labels = |now: &Inventory| now.workloads.iter().all(|it| !it.labels.is_empty());
    let are_listed = |now: &Inventory| owners_of(now, "a") == both && has_labels(now);
    let inventory = scene.until(are_listed).await;
    let workload = &inventory.workloads[1];
    assert_eq!(&*workload.kind.kind, "Deployment");
    assert_eq!(&*workload.kind.api_version, "apps/v1");
    assert_eq!(workload.labels.get("of"), Some("infer"));
    scene.kube.fault(REPLICA_SETS, Fault::Status(404));
    scene.kube.document("/apis", json!({"items": []}));
    scene.kube.cut_watches();
    scene.until(|now| owners_of(now, "a").is_empty()).await;
}

#[tokio::test]
async fn a_forbidden_kind_does_not_delay_readiness_and_its_rule_is_reported() {
    let scene = Scene::start(|kube| {
        kube.serve("ray.io/v1", "rayclusters", "RayCluster");
        kube.fault("/apis/ray.io/v1/rayclusters", Fault::Forbidden);
        kube.put(PODS, owned(pod("b"), "ray.io/v1alpha1", "RayCluster", "x"));
    })
    .await;
    let is_owner = |now: &Inventory| owners_of(now, "b") == ["rayclusters.ray.io/x"];
    scene.until(is_owner).await;
    let rule = r#"resources: ["rayclusters"]"#;
    until_told(&scene.registry, "rayclusters.ray.io", rule).await;
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
