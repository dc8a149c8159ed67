use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::client::{Client, ClusterAccess};
use super::super::health::WatchRegistry;
use super::super::inventory::{WatchSettings, Watches};
use super::fixture::{PODS, Scene, eventually, pod};
use crate::testing::fake_kube::{FakeKube, Fault};
use crate::testing::server::kubeconfig;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Inventory, InventoryOrigin, PodPhase};

#[tokio::test]
async fn listed_objects_are_reduced_and_sorted_and_the_cluster_is_their_authority() {
    let scene = Scene::start(|kube| {
        for name in ["b", "a"] {
            kube.put(PODS, pod(name));
        }
    })
    .await;
    let inventory = scene.until_pods(&["a", "b"]).await;
    assert_eq!(inventory.authority, InventoryOrigin::Cluster);
    let pod = inventory.pod("ml", "a").unwrap();
    assert_eq!(pod.node.as_deref(), Some("n1"));
    assert_eq!(pod.labels.get("app"), Some("infer"));
    assert_eq!((pod.phase, pod.requests_gpu()), (PodPhase::Running, true));
    assert_eq!(pod.started, Some(Timestamp::from_secs(1_795_255_200)));
    assert_eq!(inventory.namespaces[0].labels.get("team"), Some("a"));
    assert_eq!(&*inventory.nodes[0].name, "n1");
    scene.ready().await;
}

#[tokio::test]
async fn objects_have_their_creation_time_and_exporters_their_addresses() {
    let scene = Scene::start(|kube| {
        let mut exporter = pod("dcgm-exporter-x");
        exporter["spec"]["containers"] = json!([{"name": "c"}]);
        exporter["status"] = json!({"phase": "Pending", "podIP": "10.0.0.1"});
        kube.put(PODS, exporter);
        let born = "2026-11-21T10:00:00Z";
        let node = json!({"metadata": {"name": "n0", "uid": "0", "creationTimestamp": born}});
        kube.put("/api/v1/nodes", node);
    })
    .await;
    let inventory = scene.until_pods(&["dcgm-exporter-x"]).await;
    let created = inventory.nodes.iter().map(|node| node.created);
    let birth = Some(Timestamp::from_secs(1_795_255_200));
    assert_eq!(created.collect::<Vec<_>>(), [birth, None]);
    assert_eq!(inventory.exporters[0].address.as_deref(), Some("10.0.0.1"));
}

#[tokio::test]
async fn before_the_first_list_there_are_no_pods_and_readiness_has_the_reason() {
    let kube = FakeKube::start().await;
    kube.put(PODS, pod("a"));
    kube.fault("/api/v1/nodes", Fault::Stall);
    let scene = Scene::watching(kube).await;
    eventually("pods", || scene.works("pods")).await;
    let inventory = scene.inventory();
    assert_eq!(inventory.authority, InventoryOrigin::Cluster);
    assert!(inventory.pods.is_empty());
    assert!(!scene.health("nodes").complete);
    assert!(!scene.registry.is_ready());
}

#[tokio::test]
async fn forbidden_nodes_do_not_delay_the_rest() {
    let scene = Scene::start(|kube| {
        kube.put(PODS, pod("a"));
        kube.fault("/api/v1/nodes", Fault::Forbidden);
    })
    .await;
    let inventory = scene.until_pods(&["a"]).await;
    assert!(inventory.nodes.is_empty());
    scene.ready().await;
    let said = scene.trouble("nodes").unwrap();
    assert!(said.contains(r#"resources: ["nodes"]"#), "{said}");
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
    scene.kube.put("/api/v1/nodes", node);
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
    scene.kube.delete(PODS, "ml", "b");
    scene.until_pods(&["a"]).await;
}

#[tokio::test]
async fn a_broken_watch_resumes_at_its_last_version() {
    let scene = Scene::with_a().await;
    eventually("watching", || scene.kube.watchers(PODS) == 1).await;
    scene.kube.cut_watches();
    scene.kube.put(PODS, pod("b"));
    scene.kube.delete(PODS, "ml", "a");
    scene.until_pods(&["b"]).await;
    assert_eq!(scene.lists(), 1, "resumed, not listed again");
}

#[tokio::test]
async fn after_410_a_new_list_removes_objects_deleted_meanwhile() {
    let scene = Scene::start(|kube| {
        kube.put(PODS, pod("a"));
        kube.put(PODS, pod("b"));
    })
    .await;
    scene.until_pods(&["a", "b"]).await;
    eventually("watching", || scene.kube.watchers(PODS) == 1).await;
    scene.kube.forget(PODS, "ml", "a");
    scene.kube.expire();
    scene.kube.cut_watches();
    scene.until_pods(&["b"]).await;
    assert_eq!(scene.lists(), 2);
    scene.kube.put(PODS, pod("c"));
    scene.until_pods(&["b", "c"]).await;
}

#[tokio::test]
async fn a_missing_permission_is_reported_with_its_rule_and_may_be_granted_later() {
    let kube = FakeKube::start().await;
    kube.put(PODS, pod("a"));
    kube.fault(PODS, Fault::Forbidden);
    let scene = Scene::watching(kube).await;
    eventually("refused", || scene.trouble("pods").is_some()).await;
    let reason = scene.trouble("pods").unwrap();
    for part in [
        "cannot list /api/v1/pods",
        "ClusterRole",
        r#"apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]"#,
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    scene.kube.heal(PODS);
    scene.until_pods(&["a"]).await;
    scene.ready().await;
}

#[tokio::test]
async fn during_an_outage_objects_are_kept_and_their_age_grows() {
    let scene = Scene::with_a().await;
    scene.kube.fault(PODS, Fault::Status(503));
    scene.kube.cut_watches();
    let broken = || scene.trouble("pods").is_some();
    eventually("broken", broken).await;
    assert_eq!(scene.inventory().pods.len(), 1);
    assert!(scene.registry.is_ready());
    assert!(scene.health("pods").last_contact.is_some());
    scene.kube.put(PODS, pod("b"));
    scene.kube.heal(PODS);
    scene.until_pods(&["a", "b"]).await;
    eventually("mended", || scene.works("pods")).await;
}

#[tokio::test]
async fn the_watches_wait_for_a_server_that_starts_later() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig(address)).unwrap();
    let access = ClusterAccess {
        kubeconfig: Some(path),
        ..ClusterAccess::default()
    };
    let client = Client::connect(&access).await.unwrap();
    let registry = WatchRegistry::default();
    let watches = Watches::start(&client, &registry, WatchSettings::default());
    let reasons = || {
        let watches = registry.watches().into_iter();
        let reasons = watches.filter_map(|it| it.condition.state().reason().cloned());
        reasons.map(|why| why.to_string()).collect::<Vec<_>>()
    };
    let says = || {
        reasons()
            .iter()
            .filter(|it| it.contains("cannot be reached"))
            .count()
            == 3
    };
    eventually("it says what it waits for", says).await;
    assert!(reasons()[0].contains(&address.to_string()));
    let kube = FakeKube::on(tokio::net::TcpListener::bind(address).await.unwrap());
    kube.put(PODS, pod("a"));
    eventually("ready", || registry.is_ready()).await;
    eventually("pods", || watches.subscribe().borrow().pods.len() == 1).await;
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
async fn after_an_invalid_event_the_collection_is_listed_again() {
    let scene = Scene::with_a().await;
    eventually("watching", || scene.kube.watchers(PODS) == 1).await;
    scene.kube.forget(PODS, "ml", "a");
    scene.kube.put(PODS, pod("b"));
    scene.until_pods(&["a", "b"]).await;
    scene.kube.line(PODS, "<html>proxy error</html>");
    scene.until_pods(&["b"]).await;
    assert_eq!(scene.lists(), 2);
}

#[tokio::test]
async fn responses_that_are_no_lists_are_rejected_and_requested_again() {
    let texts = r#"null [] <html> {"metadata":{},"items":[]} {"items":1}"#;
    for text in texts.split(' ').chain([""]) {
        let kube = FakeKube::start().await;
        kube.fault(PODS, Fault::Text(text.to_owned()));
        let scene = Scene::watching(kube).await;
        eventually(text, || scene.trouble("pods").is_some()).await;
        let reason = scene.trouble("pods").unwrap();
        let words = "not an answer of the Kubernetes API";
        assert!(reason.contains(words), "{reason}");
        scene.kube.heal(PODS);
        eventually("ready", || scene.works("pods")).await;
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
    let trouble = || format!("{:?}", scene.trouble("pods"));
    eventually("it is told", || trouble().contains("HTTP 410")).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = scene.kube.queries(PODS).len();
    assert!(asked <= 4, "asked {asked} times");
    scene.kube.heal(PODS);
    scene.until_pods(&["a"]).await;
}
