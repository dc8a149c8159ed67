//! Discovery of other configurations than that of `exchanges/discovery.txt`.

use std::collections::HashMap;

use super::*;

/// The Accept header of kube-apiserver 1.30 to 1.36.
const BOTH: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

async fn ask(server: &TestServer) -> TestResponse {
    server.send("GET", "/apis", &[("Accept", BOTH)]).await
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
async fn s009_a_known_tag_gets_304_until_the_configuration_changes() {
    let (server, _) = server().await;
    let etag = |answer: &TestResponse| answer.header("etag").unwrap().to_owned();
    let first = ask(&server).await;
    let tag = etag(&first);
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2);
    let known = [("Accept", BOTH), ("If-None-Match", tag.as_str())];
    let answer = server.send("GET", "/apis", &known).await;
    assert_eq!((answer.status, answer.body.len()), (304, 0));
    assert_eq!(etag(&answer), tag);
    assert_eq!(answer.header("location"), None);

    // Another replica, whose provider lists metrics in another order, has the same document.
    let replica = changed(|fixture| fixture.custom.reverse()).await;
    assert_eq!(etag(&ask(&replica).await), tag);

    let more = changed(|fixture| fixture.external_names.push("another".into())).await;
    let answer = more.send("GET", "/apis", &known).await;
    assert_eq!(answer.status, 200);
    assert_ne!(etag(&answer), tag);
}

#[tokio::test]
async fn a_resource_with_the_prefix_of_another_is_listed_once() {
    let server = changed(|fixture| {
        let pods = fixture.custom[3].clone();
        for (resource, metric) in [("pods-x.example.com", "m"), ("pods", "a"), ("pods", "z")] {
            let mut metric_of = pods.clone();
            (metric_of.resource, metric_of.metric) = (resource.into(), metric.into());
            fixture.custom.push(metric_of);
        }
    })
    .await;
    let body = ask(&server).await.json();
    let text = |of: &Json| of.as_str().unwrap().to_owned();
    let list = |of: &Json| of.as_array().unwrap().clone().into_iter();
    let listed = list(&body["items"][0]["versions"][0]["resources"]).map(|it| {
        let metrics = list(&it["subresources"]).map(|sub| text(&sub["subresource"]));
        (text(&it["resource"]), metrics.collect::<String>())
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_unstable();
    let wanted = [
        ("deployments.apps", "m"),
        ("namespaces", "m"),
        ("nodes", "m"),
        ("pods", "amz"),
        ("pods-x.example.com", "m"),
    ];
    assert_eq!(
        listed,
        wanted.map(|(one, two)| (one.to_owned(), two.to_owned()))
    );
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
