//! Objects of requested kinds.

use std::sync::Arc;

use serde_json::json;

use super::fixture::{PODS, Scene, eventually, lists, object, owned, owners_of, pod};
use crate::testing::fake_kube::Fault;
use aggregated_apiserver::testing::log::logging;
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;

fn deployments() -> Kind {
    Kind {
        group: "apps".into(),
        version: "v1".into(),
        plural: "deployments".into(),
        singular: "deployment".into(),
        short: Vec::new(),
        kind: "Deployment".into(),
        namespaced: true,
        watchable: true,
    }
}

#[tokio::test]
async fn a_request_during_the_first_list_waits_for_it() {
    let scene = Scene::start(|kube| {
        kube.serve("apps/v1", "deployments", "Deployment");
        kube.put("/apis/apps/v1/deployments", object("infer"));
    })
    .await;
    let names = scene.watches.names();
    let kind = deployments();
    let all = Selector::default();
    let ask = || names.matching(&kind, Some("ml"), &all);
    let infer = Some(vec![Arc::from("infer")]);
    assert_eq!(tokio::join!(ask(), ask()), (infer.clone(), infer));
}

#[tokio::test]
async fn a_forbidden_kind_is_reported_once_with_the_rule_that_allows_it() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let scene = Scene::start(|kube| {
        kube.serve("apps/v1", "deployments", "Deployment");
        kube.fault("/apis/apps/v1/deployments", Fault::Forbidden);
    })
    .await;
    let names = scene.watches.names();
    let (kind, all) = (deployments(), Selector::default());
    for _ in 0..3 {
        let found = names.matching(&kind, Some("ml"), &all);
        assert_eq!(found.await, None);
    }
    let rule = r#"{apiGroups: ["apps"], resources: ["deployments"], verbs: ["list", "watch"]}"#;
    assert_eq!(log.text().matches(rule).count(), 1, "{}", log.text());
}

#[tokio::test]
async fn owners_and_requested_objects_of_a_kind_share_one_watch() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
    let scene = Scene::start(|kube| {
        kube.serve("apps/v1", "deployments", "Deployment");
        kube.put(DEPLOYMENTS, object("infer"));
        kube.put(PODS, owned(pod("a"), "apps/v1", "Deployment", "infer"));
    })
    .await;
    scene.until(|now| owners_of(now, "a").len() == 1).await;
    let names = scene.watches.names();
    let (kind, all) = (deployments(), Selector::default());
    let found = names.matching(&kind, None, &all);
    assert_eq!(found.await, Some(vec![Arc::from("infer")]));
    eventually("watched", || scene.kube.watchers(DEPLOYMENTS) == 1).await;
    assert_eq!(lists(&scene.kube, DEPLOYMENTS), 1);
}

#[tokio::test]
async fn objects_outside_of_namespaces_and_services_are_found_on_request() {
    let resource = |plural: &str, kind: &str, scope: &str| {
        json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope,
               "verbs": ["list", "watch"]})
    };
    let core = [
        resource("services", "Service", "Namespaced"),
        resource("persistentvolumes", "PersistentVolume", "Cluster"),
    ];
    let scene = Scene::start(|kube| {
        let version = json!({"version": "v1", "resources": core});
        kube.document("/api", json!({"items": [{"versions": [version]}]}));
        kube.put("/api/v1/services", object("infer"));
        let disk = json!({"metadata": {"name": "disk"}});
        kube.put("/api/v1/persistentvolumes", disk);
        kube.put(PODS, owned(pod("a"), "v1", "PersistentVolume", "disk"));
    })
    .await;
    scene.until_pods(&["a"]).await;
    let (names, all) = (scene.watches.names(), Selector::default());
    for (plural, kind, namespaced, name) in [
        ("services", "Service", true, "infer"),
        ("persistentvolumes", "PersistentVolume", false, "disk"),
    ] {
        let kind = Kind {
            group: "".into(),
            plural: plural.into(),
            kind: kind.into(),
            namespaced,
            ..deployments()
        };
        let found = names.matching(&kind, None, &all);
        assert_eq!(found.await, Some(vec![Arc::from(name)]), "{plural}");
    }
    let inventory = scene.inventory();
    assert!(owners_of(&inventory, "a").is_empty(), "{inventory:?}");
}
