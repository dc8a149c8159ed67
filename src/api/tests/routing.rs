use serde_json::json;

use super::*;

#[tokio::test]
async fn s016_wildcard_lists_exactly_the_pods_with_data() {
    let (server, _) = server().await;
    for target in ["pods/*/m", "pods/%2A/m", "pods/%2a/m"] {
        let answer = server.get(&format!("{V2}/namespaces/ns/{target}")).await;
        assert_eq!(names(&answer), ["a", "b"], "{target}");
    }
}

#[tokio::test]
async fn s017_a_named_pod_is_one_item_or_a_reason() {
    let (server, _) = server().await;
    let answer = pods(&server, "a/m").await;
    assert_eq!(names(&answer), ["a"]);
    let answer = pods(&server, "c/m").await;
    let body = status(&answer);
    assert_eq!(body["code"], 404);
    assert_eq!(
        body["message"],
        "the server could not find the metric m for pods c: it holds no GPU"
    );
    let query = "metricLabelSelector=gpu%3D7";
    let answer = pods(&server, &format!("a/m?{query}")).await;
    assert_eq!(
        status(&answer)["message"],
        "the server could not find the metric m for pods a with selector gpu=7: it holds no GPU"
    );
}

#[tokio::test]
async fn s018_nodes_are_served_by_name_and_all() {
    let (server, _) = server().await;
    let all = get(&server, "nodes/*/m").await;
    assert_eq!(names(&all), ["n1", "n2"]);
    let one = get(&server, "nodes/n1/m").await;
    assert_eq!(names(&one), ["n1"]);
    let object = &one.json()["items"][0]["describedObject"];
    assert_eq!(
        *object,
        json!({"kind": "Node", "name": "n1", "apiVersion": "v1"})
    );
}

#[tokio::test]
async fn s019_a_namespace_describes_itself() {
    let (server, _) = server().await;
    let answer = get(&server, "namespaces/ns/metrics/m").await;
    assert_eq!(names(&answer), ["ns"]);
    let object = &answer.json()["items"][0]["describedObject"];
    assert_eq!(
        *object,
        json!({"kind": "Namespace", "name": "ns", "apiVersion": "v1"})
    );
}

#[tokio::test]
async fn s019_all_namespaces_that_match_describe_themselves() {
    let (server, _) = server().await;
    for (query, wanted) in [
        ("", &["ns", "team"][..]),
        ("?labelSelector=team%3Da", &["team"]),
        ("?labelSelector=team%21%3Da", &["ns"]),
    ] {
        let path = format!("{V2}/namespaces/*/metrics/m{query}");
        assert_eq!(names(&server.get(&path).await), wanted, "{query}");
    }
    let none = "namespaces/*/metrics/m?labelSelector=team%3Db";
    assert_eq!(refusal(&server, V2, none).await, 404);
    let encoded = get(&server, "namespaces/%2A/metrics/m").await;
    assert_eq!(names(&encoded), ["ns", "team"]);
    for path in ["namespaces/**/metrics/m", "namespaces/*/metrics/m/x"] {
        assert_eq!(refusal(&server, V2, path).await, 404, "{path}");
    }
    let external = refusal(&server, EXT, "namespaces/*/queue_depth").await;
    assert_eq!(external, 404);
}

#[tokio::test]
async fn s020_a_resource_with_its_group_is_served() {
    let (server, _) = server().await;
    let path = format!("{V2}/namespaces/ns/deployments.apps/web/m");
    let answer = server.get(&path).await;
    assert_eq!(names(&answer), ["web"]);
    let item = &answer.json()["items"][0];
    assert_eq!(item["describedObject"]["apiVersion"], "apps/v1");
    assert_eq!(item["value"], "1500");
}

#[tokio::test]
async fn s021_an_unknown_metric_has_the_message_of_the_reference() {
    let (server, _) = server().await;
    for (resource, name) in [("pods", "*"), ("deployments.apps", "web")] {
        let path = format!("namespaces/ns/{resource}/{name}/nope");
        let body = status(&get(&server, &path).await);
        assert_eq!(
            (&body["code"], &body["reason"]),
            (&json!(404), &json!("NotFound"))
        );
        let message = format!("the server could not find the metric nope for {resource}");
        assert_eq!(body["message"], message);
    }
}

#[tokio::test]
async fn s029_paths_of_other_lengths_are_not_found() {
    let (server, fixture) = server().await;
    let paths = "pods/m namespaces/ns/m namespaces/ns namespaces/ns/pods namespaces/ns/pods/a \
                 namespaces/ns/metrics/m/x namespaces/ns/pods/a/m/x a/b/c/d a/b/c/d/e/f blah";
    for path in paths.split(' ') {
        assert_eq!(refusal(&server, V2, path).await, 404, "{path}");
    }
    for path in ["m", "namespaces/ns", "namespaces/ns/a/b", "namespaces/NS/m"] {
        assert_eq!(refusal(&server, EXT, path).await, 404, "{path}");
    }
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s030_words_with_a_special_meaning_are_no_resources() {
    let (server, fixture) = server().await;
    let paths = "watch/pods/a proxy/pods/a status/a/m finalize/a/m metrics/a/m \
                 watch/namespaces/ns/pods/a namespaces/ns/status/a/m namespaces/ns/finalize/a/m \
                 namespaces/ns/watch/a/m namespaces/ns/proxy/a/m namespaces/ns/metrics/a/m";
    for path in paths.split(' ') {
        assert_eq!(refusal(&server, V2, path).await, 404, "{path}");
    }
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s031_a_kind_is_served_in_its_own_scope_only() {
    let (server, _) = server().await;
    let paths = "namespaces/ns/nodes/n1/m namespaces/ns/nodes/*/m namespaces/ns/namespaces/ns/m \
                 pods/a/m pods/*/m";
    for path in paths.split(' ') {
        let body = status(&get(&server, path).await);
        assert_eq!(body["code"], 404, "{path}");
    }
}

#[tokio::test]
async fn s032_external_names_match_in_any_case() {
    let (server, _) = server().await;
    let ask = async |name: &str| server.get(&format!("{EXT}/namespaces/ns/{name}")).await;
    let answer = ask("queue_depth").await;
    assert_eq!(answer.json()["items"][0]["metricName"], "Queue_Depth");
    for name in ["QUEUE_DEPTH", "Queue_Depth"] {
        assert_eq!(ask(name).await.body, answer.body);
    }
}

#[tokio::test]
async fn s033_external_selectors_filter_and_unknown_metrics_are_not_found() {
    let (server, _) = server().await;
    let path = format!("{EXT}/namespaces/ns/queue_depth");
    let all = server.get(&path).await.json();
    assert_eq!(
        all,
        json!({"kind": "ExternalMetricValueList",
            "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": [
            {"metricName": "Queue_Depth", "metricLabels": {"queue": "fast"},
             "timestamp": "2026-01-02T03:04:05Z", "window": 60, "value": "3"},
            {"metricName": "Queue_Depth", "metricLabels": {"queue": "slow"},
             "timestamp": "2026-01-02T03:04:05Z", "window": 60, "value": "4500m"}]})
    );
    let one = server
        .get(&format!("{path}?labelSelector=queue%3Dslow"))
        .await;
    assert_eq!(one.json()["items"], json!([all["items"][1]]));
    for target in ["queue_depth?labelSelector=queue%3Dnone", "nope"] {
        let target = format!("namespaces/ns/{target}");
        assert_eq!(refusal(&server, EXT, &target).await, 404, "{target}");
    }
}

#[tokio::test]
async fn s034_the_versions_differ_only_in_names_of_fields() {
    let (server, _) = server().await;
    let target = "namespaces/ns/pods/*/m?metricLabelSelector=gpu";
    let old = server.get(&format!("{V1}/{target}")).await.json();
    let new = server.get(&format!("{V2}/{target}")).await.json();
    let mut renamed = new.clone();
    renamed["apiVersion"] = "custom.metrics.k8s.io/v1beta1".into();
    for item in renamed["items"].as_array_mut().unwrap() {
        let item = item.as_object_mut().unwrap();
        let metric = item.remove("metric").unwrap();
        item.insert("metricName".into(), metric["name"].clone());
        item.insert("selector".into(), metric["selector"].clone());
        let window = item.remove("windowSeconds").unwrap();
        item.insert("window".into(), window);
    }
    assert_eq!(old, renamed);
}

#[tokio::test]
async fn s028_only_get_is_served() {
    let (server, fixture) = server().await;
    let custom = format!("{V2}/namespaces/ns/pods/*/m");
    let others = ["/readyz", "/metrics", "/openapi/v2"];
    for path in [custom.as_str(), V2, "/apis"].into_iter().chain(others) {
        for method in ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"] {
            let answer = server.send(method, path, &[]).await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.header("allow"), Some("GET"), "{method} {path}");
        }
    }
    assert_eq!(fixture.times_asked(), 0);
}
