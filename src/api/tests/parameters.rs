use serde_json::json;

use super::*;

#[tokio::test]
async fn s022_label_selectors_select_objects() {
    let (server, _) = server().await;
    for (selector, wanted) in [
        ("app=x", &["a", "b"][..]),
        ("app!=x", &[]),
        ("app in (x,y)", &["a", "b"]),
        ("app notin (x)", &[]),
        ("app", &["a", "b"]),
        ("!app", &[]),
        ("n>3", &["a"]),
        ("n<3", &["b"]),
        ("app=x,n=2", &["b"]),
        ("app!=y", &["a", "b"]),
        ("", &["a", "b"]),
    ] {
        let query = format!("labelSelector={}", encode(selector));
        let answer = pods(&server, &format!("*/m?{query}")).await;
        if wanted.is_empty() {
            assert_eq!(status(&answer)["code"], 404, "{selector}");
        } else {
            assert_eq!(names(&answer), wanted, "{selector}");
        }
    }
    let first = pods(&server, "*/m?labelSelector=n%3D5&labelSelector=n%3D2").await;
    assert_eq!(
        names(&first),
        ["a"],
        "the first value of a parameter counts"
    );
}

#[tokio::test]
async fn s023_the_metric_selector_filters_series() {
    let (server, _) = server().await;
    let plain = pods(&server, "a/m").await.json();
    let metric = &plain["items"][0]["metric"];
    assert_eq!(*metric, json!({"name": "m", "selector": null}));
    assert_eq!(plain["items"][0]["value"], "37500m");
    let selector = encode("gpu=1,model in (A100,H100),node notin (x),uuid!=u,!mig,model");
    let one = pods(&server, &format!("a/m?metricLabelSelector={selector}")).await;
    let one = one.json();
    assert_eq!(one["items"][0]["value"], "45");
    assert_eq!(one["items"][0]["metric"]["selector"], Json::Null);
    let all = pods(&server, "*/m?metricLabelSelector=gpu%3D1").await;
    assert_eq!(names(&all), ["a"]);
    let old = format!("{V1}/namespaces/ns/pods/a/m?metricLabelSelector=gpu%3D1");
    assert_eq!(
        server.get(&old).await.json()["items"][0]["selector"],
        Json::Null
    );
    let refused = pods(&server, "a/m?metricLabelSelector=window%3Dsoon").await;
    let said = "metric selector key window: write a duration such as 5m";
    assert_eq!(status(&refused)["message"], said);
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn s024_malformed_selectors_are_bad_requests() {
    let (server, fixture) = server().await;
    let long = format!("a={}", "v".repeat(64));
    for selector in ["a=b=c", "in (", "a in (", long.as_str(), "=", "a=\u{1}"] {
        let value = encode(selector);
        for target in [
            format!("{V2}/namespaces/ns/pods/*/m?labelSelector={value}"),
            format!("{V2}/namespaces/ns/pods/a/m?labelSelector={value}"),
            format!("{V2}/namespaces/ns/metrics/m?labelSelector={value}"),
            format!("{V2}/namespaces/ns/pods/*/m?metricLabelSelector={value}"),
            format!("{EXT}/namespaces/ns/queue_depth?labelSelector={value}"),
        ] {
            let body = status(&server.get(&target).await);
            assert_eq!(body["code"], 400, "{target}");
            assert_eq!(body["reason"], "BadRequest");
        }
    }
    let broken = pods(&server, "*/m?labelSelector=%zz").await;
    assert_eq!(status(&broken)["code"], 400);
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s025_a_field_selector_is_refused() {
    let (server, _) = server().await;
    for (target, code) in [
        ("a/m?fieldSelector=", 200),
        ("a/m?fieldSelector=metadata.name%3Da", 400),
        ("*/m?fieldSelector=metadata.name%3Da", 400),
        ("a/m?fieldSelector=spec.nodeName%3Da", 400),
    ] {
        assert_eq!(pods(&server, target).await.status, code, "{target}");
    }
    let external = "namespaces/ns/queue_depth?fieldSelector=metadata.name%3Da";
    assert_eq!(refusal(&server, EXT, external).await, 400);
}

#[tokio::test]
async fn s026_other_parameters_change_nothing() {
    let (server, _) = server().await;
    let plain = pods(&server, "*/m").await.body;
    let queries = "limit=1 continue=abc resourceVersion=0 x=y&&= timeout=abc pretty=1 at=noon";
    for query in queries.split(' ') {
        let answer = pods(&server, &format!("*/m?{query}")).await;
        assert_eq!(answer.body, plain, "{query}");
    }
}

#[tokio::test]
async fn s027_watching_is_refused() {
    let (server, _) = server().await;
    let custom = format!("{V2}/namespaces/ns/pods/*/m");
    let external = format!("{EXT}/namespaces/ns/queue_depth");
    for path in [&custom, &external] {
        for (query, code) in [
            ("watch=true", 405),
            ("watch", 405),
            ("watch=x", 405),
            ("watch=false", 200),
            ("watch=False", 200),
            ("watch=0", 200),
        ] {
            let answer = server.get(&format!("{path}?{query}")).await;
            assert_eq!(answer.status, code, "{path} {query}");
        }
    }
    let body = status(&server.get(&format!("{custom}?watch=1")).await);
    let wanted = r#"watch is not supported on resources of kind "pods.custom.metrics.k8s.io""#;
    assert_eq!(body["message"], wanted);
}

/// An explanation reveals the value, so it needs the same access.
#[tokio::test]
async fn an_explanation_is_for_one_value_and_cannot_be_watched() {
    let (server, _) = server().await;
    for (base, target, code) in [
        (V2, "namespaces/ns/pods/a/m?explain=true&watch=true", 405),
        (EXT, "namespaces/ns/m?explain=true&watch=true", 405),
        (V2, "namespaces/ns/pods/*/m?explain=true", 400),
    ] {
        assert_eq!(refusal(&server, base, target).await, code, "{target}");
    }
}
