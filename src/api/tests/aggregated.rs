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
    fixture
        .ready
        .store(false, std::sync::atomic::Ordering::SeqCst);
    let answer = ask(&server, &only("v2")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some(only("v2").as_str()));
    assert_eq!(answer.header("vary"), Some("Accept"));
    assert_eq!(answer.header("cache-control"), Some("public"));
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
    for (accept, version) in [
        (only("v2"), "v2"),
        (only("v2beta1"), "v2beta1"),
        (BOTH.to_owned(), "v2"),
        (nopeer, "v2"),
        (format!("{},application/json", only("v2")), "v2"),
    ] {
        let answer = ask(&server, &accept).await;
        assert_eq!(answer.status, 200, "{accept}");
        let body = answer.json();
        assert_eq!(
            body["apiVersion"],
            format!("apidiscovery.k8s.io/{version}"),
            "{accept}"
        );
        let content_type = answer.header("content-type").unwrap().to_owned();
        assert!(
            content_type.contains(&format!(";v={version};")),
            "{content_type}"
        );
    }
    // A clause with an unknown version is skipped; the next one is used.
    let answer = ask(&server, &format!("{},application/json", only("v3"))).await;
    assert_eq!(answer.json()["kind"], "APIGroupList");
    assert_eq!(answer.header("vary"), Some("Accept"));
    let answer = ask(&server, &only("v3")).await;
    assert_eq!(status(&answer)["reason"], "NotAcceptable");
}

#[tokio::test]
async fn s009_a_known_tag_gets_304_until_the_configuration_changes() {
    let (server, _) = server().await;
    let etag = |answer: &TestResponse| answer.header("etag").unwrap().to_owned();
    let first = ask(&server, BOTH).await;
    let tag = etag(&first);
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2);
    assert_ne!(etag(&ask(&server, &only("v2beta1")).await), tag);
    let known = [("Accept", BOTH), ("If-None-Match", tag.as_str())];
    let answer = server.send("GET", "/apis", &known).await;
    assert_eq!((answer.status, answer.body.len()), (304, 0));
    assert_eq!(etag(&answer), tag);
    assert_eq!(answer.header("location"), None);

    // Another replica, whose provider lists metrics in another order, has the same document.
    let mut same = Fixture::new();
    same.custom.reverse();
    let replica = TestServer::start(open(&api(&Arc::new(same)))).await;
    assert_eq!(etag(&ask(&replica, BOTH).await), tag);

    let mut more = Fixture::new();
    more.external_names.push("another".into());
    let changed = TestServer::start(open(&api(&Arc::new(more)))).await;
    let answer = changed.send("GET", "/apis", &known).await;
    assert_eq!(answer.status, 200);
    assert_ne!(etag(&answer), tag);
}

#[tokio::test]
async fn a_resource_with_the_prefix_of_another_is_listed_once() {
    let mut fixture = Fixture::new();
    let pods = fixture.custom[3].clone();
    for (resource, metric) in [("pods-x.example.com", "m"), ("pods", "a"), ("pods", "z")] {
        let mut metric_of = pods.clone();
        (metric_of.resource, metric_of.metric) = (resource.into(), metric.into());
        fixture.custom.push(metric_of);
    }
    let server = TestServer::start(open(&api(&Arc::new(fixture)))).await;
    let body = ask(&server, BOTH).await.json();
    let resources = body["items"][0]["versions"][0]["resources"].as_array();
    let resources = resources.unwrap().iter();
    let names = resources.clone().map(|it| it["resource"].as_str().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    let wanted = [
        "deployments.apps",
        "namespaces",
        "nodes",
        "pods",
        "pods-x.example.com",
    ];
    assert_eq!(names, wanted);
    let of_pods = resources
        .clone()
        .find(|it| it["resource"] == "pods")
        .unwrap();
    let metrics = of_pods["subresources"].as_array().unwrap().iter();
    let metrics: Vec<_> = metrics.map(|sub| &sub["subresource"]).collect();
    assert_eq!(metrics, ["a", "m", "z"]);
}
