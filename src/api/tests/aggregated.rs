use serde_json::json;

use super::*;

/// The Accept header of kube-apiserver 1.30 to 1.36.
const BOTH: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

fn only(version: &str) -> String {
    format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
}

async fn ask(server: &TestServer, accept: &str) -> TestResponse {
    server.send("GET", "/apis", &[("Accept", accept)]).await
}

#[tokio::test]
async fn s007_the_aggregated_document_has_every_version_with_its_resources() {
    let (server, fixture) = server().await;
    fixture.fail();
    let answer = ask(&server, &only("v2")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some(only("v2").as_str()));
    assert_eq!(answer.header("vary"), Some("Accept"));
    let empty = json!({"group": "", "version": "", "kind": ""});
    let list = json!({"group": "", "version": "", "kind": "MetricValueList"});
    let subresources = json!([{"subresource": "m", "responseKind": list, "verbs": ["get"]}]);
    let described = |resource: &str, scope: &str| {
        json!({"resource": resource, "responseKind": empty, "scope": scope,
            "singularResource": "", "verbs": [], "subresources": subresources})
    };
    let resources = json!([
        described("deployments.apps", "Namespaced"),
        described("namespaces", "Cluster"),
        described("nodes", "Cluster"),
        described("pods", "Namespaced"),
    ]);
    let version = |name: &str, resources: &Json| json!({"version": name, "freshness": "Current", "resources": resources});
    let external = json!([{"resource": "Queue_Depth", "scope": "Namespaced",
        "responseKind": {"group": "", "version": "", "kind": "ExternalMetricValueList"},
        "singularResource": "", "verbs": ["get"]}]);
    assert_eq!(
        answer.json(),
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {}, "items": [
            {"metadata": {"name": "custom.metrics.k8s.io"},
             "versions": [version("v1beta2", &resources), version("v1beta1", &resources)]},
            {"metadata": {"name": "external.metrics.k8s.io"},
             "versions": [version("v1beta1", &external)]}]})
    );
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s008_every_accept_header_for_it_is_supported() {
    let (server, _) = server().await;
    let nopeer = BOTH.replace("List", "List;profile=nopeer");
    let [v2, beta] = ["v2", "v2beta1"].map(only);
    for accept in [
        v2.clone(),
        BOTH.to_owned(),
        nopeer,
        format!("{v2},application/json"),
        format!("{v2};q=0.1,{beta}"),
    ] {
        let answer = ask(&server, &accept).await;
        assert_eq!(answer.status, 200, "{accept}");
        assert_eq!(answer.json()["apiVersion"], "apidiscovery.k8s.io/v2");
        assert_eq!(answer.header("content-type"), Some(&*v2), "{accept}");
    }
    // A clause with another version or without weight is skipped; the next one is used.
    for clause in [beta.clone(), format!("{v2};q=0")] {
        let answer = ask(&server, &format!("{clause},application/json")).await;
        assert_eq!(answer.json()["kind"], "APIGroupList", "{clause}");
        assert_eq!(answer.header("vary"), Some("Accept"));
    }
    for refused in [
        beta,
        v2.replace("json", "yaml"),
        "application/json;as=APIGroupDiscoveryList".to_owned(),
        "application/json;g=apidiscovery.k8s.io".to_owned(),
    ] {
        let answer = ask(&server, &refused).await;
        assert_eq!(status(&answer)["reason"], "NotAcceptable", "{refused}");
    }
}

#[tokio::test]
async fn s009_a_known_tag_gets_304_until_the_configuration_changes() {
    let (server, _) = server().await;
    let etag = |answer: &TestResponse| answer.header("etag").unwrap().to_owned();
    let first = ask(&server, BOTH).await;
    let tag = etag(&first);
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2);
    let known = [("Accept", BOTH), ("If-None-Match", tag.as_str())];
    let answer = server.send("GET", "/apis", &known).await;
    assert_eq!((answer.status, answer.body.len()), (304, 0));
    assert_eq!(etag(&answer), tag);
    assert_eq!(answer.header("location"), None);

    // Another replica, whose provider lists metrics in another order, has the same document.
    let replica = changed(|fixture| fixture.custom.reverse()).await;
    assert_eq!(etag(&ask(&replica, BOTH).await), tag);

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
    let body = ask(&server, BOTH).await.json();
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
