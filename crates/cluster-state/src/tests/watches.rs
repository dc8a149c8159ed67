use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::fixture::{PODS, Scene, eventually, pod, until_told};
use crate::testing::fake_kube::{FakeKube, Fault};
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Inventory, InventoryOrigin, PodPhase};

const NODES: &str = "/api/v1/nodes";

#[tokio::test]
async fn listed_objects_are_reduced_and_sorted_and_the_cluster_is_their_authority() {
    let scene = Scene::start(|kube| {
        for name in ["dcgm-exporter-x", "a"] {
            let mut pod = pod(name);
            pod["status"]["podIP"] = "10.0.0.1".into();
            kube.put(PODS, pod);
        }
        let born = "2026-11-21T10:00:00Z";
        let node = json!({"metadata": {"name": "n0", "uid": "0", "creationTimestamp": born}});
        kube.put(NODES, node);
    })
    .await;
    let inventory = scene.until_pods(&["a", "dcgm-exporter-x"]).await;
    assert_eq!(inventory.authority, InventoryOrigin::Cluster);
    let pod = inventory.pod("ml", "a").unwrap();
    assert_eq!(pod.node.as_deref(), Some("n1"));
    assert_eq!(pod.labels.get("app"), Some("infer"));
    assert_eq!((pod.phase, pod.requests_gpu()), (PodPhase::Running, true));
    let birth = Some(Timestamp::from_secs(1_795_255_200));
    assert_eq!(pod.started, birth);
    assert_eq!(inventory.namespaces[0].labels.get("team"), Some("a"));
    let nodes = inventory.nodes.iter().map(|it| (&*it.name, it.created));
    assert_eq!(nodes.collect::<Vec<_>>(), [("n0", birth), ("n1", None)]);
    let [exporter] = &inventory.exporters[..] else {
        panic!("{:?}", inventory.exporters);
    };
    assert_eq!(exporter.address.as_deref(), Some("10.0.0.1"));
    scene.ready().await;
}

#[tokio::test]
async fn before_the_first_list_there_are_no_pods_and_readiness_has_the_reason() {
    let kube = FakeKube::start().await;
    kube.put(PODS, pod("a"));
    kube.fault(NODES, Fault::Status(500));
    let scene = Scene::watching(kube).await;
    scene.until_it_works("pods").await;
    until_told(&scene.registry, "nodes", "HTTP 500").await;
    let inventory = scene.inventory();
    assert_eq!(inventory.authority, InventoryOrigin::Cluster);
    assert!(inventory.pods.is_empty());
    assert!(!scene.health("nodes").complete);
    assert!(!scene.registry.is_ready());
}

#[tokio::test]
async fn missing_rights_are_reported_with_their_rules_and_only_nodes_can_be_left_out() {
    let kube = FakeKube::start().await;
    kube.put(PODS, pod("a"));
    kube.fault(PODS, Fault::Forbidden);
    kube.fault(NODES, Fault::Forbidden);
    let scene = Scene::watching(kube).await;
    for (watch, words) in [
        ("pods", "cannot list /api/v1/pods"),
        ("pods", "ClusterRole"),
        (
            "pods",
            r#"apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]"#,
        ),
        ("nodes", r#"resources: ["nodes"]"#),
    ] {
        until_told(&scene.registry, watch, words).await;
    }
    assert!(!scene.registry.is_ready());
    scene.kube.heal(PODS);
    let inventory = scene.until_pods(&["a"]).await;
    assert!(inventory.nodes.is_empty());
    scene.ready().await;
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let names: Vec<String> = (0..620).map(|index| format!("pod-{index:04}")).collect();
    let fill = |kube: &FakeKube| names.iter().for_each(|it| kube.put(PODS, pod(it)));
    let scene = Scene::start(fill).await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    scene.until_pods(&names).await;
    assert_eq!(scene.lists(), 3, "pages");
}

#[tokio::test]
async fn changes_are_published_and_unused_fields_are_no_changes() {
    let scene = Scene::with_a().await;
    scene.kube.put(PODS, pod("b"));
    let before = scene.until_pods(&["a", "b"]).await;
    let mut beat = pod("a");
    beat["status"]["conditions"] = json!([{"type": "Ready", "lastProbeTime": "later"}]);
    scene.kube.put(PODS, beat);
    let mut ending = pod("b");
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T10:05:00Z".into();
    let node = json!({"metadata": {"name": "n1", "uid": "n"}});
    scene.kube.put(NODES, node);
    // A second line on the same watch, and enough time for a snapshot.
    let contact = scene.health("pods").last_contact;
    scene.kube.line(PODS, r#"{"type":"ADDED","object":{}}"#);
    let has_arrived = || scene.health("pods").last_contact > contact;
    eventually("the beat has arrived", has_arrived).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(Arc::ptr_eq(&before, &scene.inventory()));
    scene.kube.put(PODS, ending);
    let ends = |now: &Inventory| now.pods.iter().any(|pod| pod.terminating);
    let after = scene.until(ends).await;
    assert!(!after.pod("ml", "b").unwrap().is_live());
    scene.kube.delete(PODS, "b");
    scene.until_pods(&["a"]).await;
}

#[tokio::test]
async fn a_broken_watch_resumes_at_its_last_version() {
    let scene = Scene::with_a().await;
    scene.kube.cut_watches();
    scene.kube.put(PODS, pod("b"));
    scene.kube.delete(PODS, "a");
    scene.until_pods(&["b"]).await;
    assert_eq!(scene.lists(), 1, "resumed, not listed again");
}

#[tokio::test]
async fn after_410_or_an_invalid_event_a_new_list_removes_objects_deleted_meanwhile() {
    for is_expired in [true, false] {
        let scene = Scene::with_a().await;
        scene.kube.put(PODS, pod("b"));
        scene.until_pods(&["a", "b"]).await;
        scene.kube.forget(PODS, "a");
        if is_expired {
            scene.kube.expire();
            scene.kube.cut_watches();
        } else {
            scene.kube.line(PODS, "<html>proxy error</html>");
        }
        scene.until_pods(&["b"]).await;
        assert_eq!(scene.lists(), 2);
        scene.kube.put(PODS, pod("c"));
        scene.until_pods(&["b", "c"]).await;
    }
}

#[tokio::test]
async fn during_an_outage_objects_are_kept_and_their_age_grows() {
    let scene = Scene::with_a().await;
    scene.kube.fault(PODS, Fault::Status(503));
    scene.kube.cut_watches();
    until_told(&scene.registry, "pods", "HTTP 503").await;
    assert_eq!(scene.inventory().pods.len(), 1);
    assert!(scene.registry.is_ready());
    assert!(scene.health("pods").last_contact.is_some());
    scene.kube.put(PODS, pod("b"));
    scene.kube.heal(PODS);
    scene.until_pods(&["a", "b"]).await;
    scene.until_it_works("pods").await;
}

#[tokio::test]
async fn one_invalid_object_is_left_out_and_the_rest_is_kept() {
    let scene = Scene::start(|kube| {
        kube.put(PODS, pod("a"));
        kube.put(PODS, pod("c"));
        let mut odd = pod("b");
        odd["metadata"]["labels"] = json!([1, 2]);
        kube.put(PODS, odd);
    })
    .await;
    scene.until_pods(&["a", "c"]).await;
    for line in [
        "",
        r#"{"type":"TOMORROW","object":{"metadata":{}}}"#,
        r#"{"type":"ADDED","object":{"metadata":{"name":""}}}"#,
    ] {
        scene.kube.line(PODS, line);
    }
    scene.kube.put(PODS, pod("d"));
    scene.until_pods(&["a", "c", "d"]).await;
    assert_eq!(scene.lists(), 1);
}

#[tokio::test]
async fn responses_that_are_no_lists_are_rejected_and_requested_again() {
    let texts = r#"null [] <html> {"metadata":{},"items":[]} {"items":1}"#;
    for text in texts.split(' ').chain([""]) {
        let kube = FakeKube::start().await;
        kube.fault(PODS, Fault::Text(text.to_owned()));
        let scene = Scene::watching(kube).await;
        let words = "not an answer of the Kubernetes API";
        until_told(&scene.registry, "pods", words).await;
        scene.kube.heal(PODS);
        scene.until_it_works("pods").await;
    }
}

#[tokio::test]
async fn requests_are_few_if_a_server_cuts_every_watch() {
    let scene = Scene::start(|kube| {
        kube.put(PODS, pod("a"));
        kube.fault(PODS, Fault::CutWatches);
    })
    .await;
    scene.until_pods(&["a"]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = scene.kube.queries(PODS).len();
    assert!(asked < 12, "asked {asked} times");
    scene.kube.heal(PODS);
    scene.kube.put(PODS, pod("b"));
    scene.until_pods(&["a", "b"]).await;
}

#[tokio::test]
async fn lists_become_rarer_if_a_server_discards_every_version() {
    let kube = FakeKube::start().await;
    kube.put(PODS, pod("a"));
    kube.fault(PODS, Fault::Status(410));
    let scene = Scene::watching(kube).await;
    until_told(&scene.registry, "pods", "HTTP 410").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = scene.kube.queries(PODS).len();
    assert!(asked <= 4, "asked {asked} times");
    scene.kube.heal(PODS);
    scene.until_pods(&["a"]).await;
}
