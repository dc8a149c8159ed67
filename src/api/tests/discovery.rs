use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn s001_versions_are_listed_at_once_while_the_backend_is_down() {
    let (server, fixture) = server().await;
    fixture.fail();
    for (path, version) in [(V1, "v1beta1"), (V2, "v1beta2")] {
        let began = Instant::now();
        let answer = server.get(path).await;
        assert!(began.elapsed() < Duration::from_secs(1));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let body = answer.json();
        assert_eq!(body["kind"], "APIResourceList");
        assert_eq!(body["apiVersion"], "v1");
        assert_eq!(body["server"], "gpu-metrics-apiserver");
        let group_version = format!("custom.metrics.k8s.io/{version}");
        assert_eq!(body["groupVersion"], group_version);
    }
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s002_external_metrics_are_listed() {
    let (server, _) = server().await;
    let body = server.get(EXT).await.json();
    assert_eq!(body["groupVersion"], "external.metrics.k8s.io/v1beta1");
    assert_eq!(body["server"], "gpu-metrics-apiserver");
    assert_eq!(
        body["resources"],
        serde_json::json!([{"name": "Queue_Depth", "singularName": "", "namespaced": true,
            "kind": "ExternalMetricValueList", "verbs": ["get"]}])
    );
}

#[tokio::test]
async fn s003_every_entry_is_complete_and_has_only_the_verb_get() {
    let (server, _) = server().await;
    for path in [V1, V2, EXT] {
        let body = server.get(path).await.json();
        let resources = body["resources"].as_array().unwrap().clone();
        assert!(!resources.is_empty());
        for entry in resources {
            assert!(entry["name"].is_string(), "{entry}");
            assert!(entry["singularName"].is_string(), "{entry}");
            assert!(entry["namespaced"].is_boolean(), "{entry}");
            assert!(entry["kind"].is_string(), "{entry}");
            assert_eq!(entry["verbs"], serde_json::json!(["get"]));
        }
    }
}

#[tokio::test]
async fn s004_no_resource_appears_in_both_scopes() {
    let server = changed(|fixture| {
        let mut wrong = fixture.custom[3].clone();
        (wrong.metric, wrong.namespaced) = ("z".into(), false);
        fixture.custom.push(wrong);
    })
    .await;
    let body = server.get(V2).await.json();
    let mut scopes: HashMap<String, bool> = HashMap::new();
    for entry in body["resources"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let parent = name.split('/').next().unwrap().to_owned();
        let scope = entry["namespaced"].as_bool().unwrap();
        assert_eq!(*scopes.entry(parent).or_insert(scope), scope, "{name}");
    }
    assert_eq!(scopes.len(), 4);
}

#[tokio::test]
async fn s005_ten_answers_and_two_replicas_list_in_one_order() {
    let (server, _) = server().await;
    let replica = changed(|fixture| fixture.custom.reverse()).await;
    let first = server.get(V2).await.body;
    for _ in 0..10 {
        assert_eq!(server.get(V2).await.body, first);
    }
    assert_eq!(replica.get(V2).await.body, first);
}

#[tokio::test]
async fn s006_the_group_list_has_all_versions_and_the_preferred_one() {
    let (server, _) = server().await;
    let body = server.get("/apis").await.json();
    let version = |group: &str, version: &str| serde_json::json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let (custom, external) = ("custom.metrics.k8s.io", "external.metrics.k8s.io");
    assert_eq!(
        body,
        serde_json::json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": custom, "versions": [version(custom, "v1beta2"), version(custom, "v1beta1")],
             "preferredVersion": version(custom, "v1beta2")},
            {"name": external, "versions": [version(external, "v1beta1")],
             "preferredVersion": version(external, "v1beta1")}]})
    );
}

#[tokio::test]
async fn s015_a_trailing_slash_changes_nothing() {
    let (server, _) = server().await;
    for path in ["/apis", V1, V2, EXT] {
        let plain = server.get(path).await;
        let slashed = server.get(&format!("{path}/")).await;
        assert_eq!((plain.status, slashed.status), (200, 200), "{path}");
        assert_eq!(plain.body, slashed.body, "{path}");
    }
}

#[tokio::test]
async fn a_group_without_metrics_is_served_without_resources() {
    let server = changed(|fixture| fixture.external_names.clear()).await;
    let groups = server.get("/apis").await.json();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 2);
    let list = server.get(EXT).await.json();
    assert_eq!(list["resources"], serde_json::json!([]), "{list}");
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let all = server.send("GET", "/apis", &[("Accept", v2)]).await.json();
    let resources = all["items"][1]["versions"][0]["resources"].as_array();
    assert!(resources.is_none_or(Vec::is_empty), "{all}");
    let paths = server.get("/openapi/v3").await.json()["paths"].clone();
    assert_eq!(paths.as_object().unwrap().len(), 3);
}

#[tokio::test]
async fn s051_discovery_is_json_also_for_clients_that_prefer_protobuf() {
    let (server, _) = server().await;
    for target in [V2, "/apis"] {
        let wish = format!("{PROTOBUF}, */*");
        let answer = server.send("GET", target, &[("Accept", &wish)]).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let answer = server.send("GET", target, &[("Accept", PROTOBUF)]).await;
        assert_eq!(answer.status, 406);
    }
}
