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
        let answer = server
            .get(&format!("{V2}/namespaces/ns/pods/*/m?{query}"))
            .await;
        if wanted.is_empty() {
            assert_eq!(status(&answer)["code"], 404, "{selector}");
        } else {
            assert_eq!(names(&answer), wanted, "{selector}");
        }
    }
}

#[tokio::test]
async fn s023_the_metric_selector_filters_series_and_is_echoed() {
    let (server, _) = server().await;
    let pods = format!("{V2}/namespaces/ns/pods");
    let plain = server.get(&format!("{pods}/a/m")).await.json();
    assert_eq!(
        plain["items"][0]["metric"],
        serde_json::json!({"name": "m", "selector": null})
    );
    assert_eq!(plain["items"][0]["value"], "37500m");
    let selector = encode("gpu=1,model in (A100,H100),node notin (x),uuid!=u,!mig,model");
    let one = server
        .get(&format!("{pods}/a/m?metricLabelSelector={selector}"))
        .await
        .json();
    assert_eq!(one["items"][0]["value"], "45");
    let echo = serde_json::json!({"matchLabels": {"gpu": "1"}, "matchExpressions": [
        {"key": "mig", "operator": "DoesNotExist"},
        {"key": "model", "operator": "In", "values": ["A100", "H100"]},
        {"key": "model", "operator": "Exists"},
        {"key": "node", "operator": "NotIn", "values": ["x"]},
        {"key": "uuid", "operator": "NotIn", "values": ["u"]}]});
    assert_eq!(one["items"][0]["metric"]["selector"], echo);
    let all = server
        .get(&format!("{pods}/*/m?metricLabelSelector=gpu%3D1"))
        .await;
    assert_eq!(names(&all), ["a"]);
    let old = format!("{V1}/namespaces/ns/pods/a/m?metricLabelSelector=gpu%3D1");
    let echo = serde_json::json!({"matchLabels": {"gpu": "1"}});
    assert_eq!(server.get(&old).await.json()["items"][0]["selector"], echo);
    let refused = server
        .get(&format!("{pods}/a/m?metricLabelSelector=window%3Dsoon"))
        .await;
    assert_eq!(
        status(&refused)["message"],
        "metric selector key window: write a duration such as 5m"
    );
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
    let broken = server
        .get(&format!("{V2}/namespaces/ns/pods/*/m?labelSelector=%zz"))
        .await;
    assert_eq!(status(&broken)["code"], 400);
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s025_a_field_selector_may_only_repeat_the_name() {
    let (server, _) = server().await;
    for (target, code) in [
        (
            "namespaces/ns/pods/a/m?fieldSelector=metadata.name%3Da",
            200,
        ),
        (
            "namespaces/ns/pods/a/m?fieldSelector=metadata.name%3D%3Da",
            200,
        ),
        ("namespaces/ns/pods/a/m?fieldSelector=", 200),
        (
            "namespaces/ns/pods/a/m?fieldSelector=metadata.name%3Db",
            400,
        ),
        (
            "namespaces/ns/pods/*/m?fieldSelector=metadata.name%3Da",
            400,
        ),
        (
            "namespaces/ns/pods/a/m?fieldSelector=spec.nodeName%3Da",
            400,
        ),
    ] {
        assert_eq!(
            server.get(&format!("{V2}/{target}")).await.status,
            code,
            "{target}"
        );
    }
    let external = format!("{EXT}/namespaces/ns/queue_depth?fieldSelector=metadata.name%3Da");
    assert_eq!(status(&server.get(&external).await)["code"], 400);
}

#[tokio::test]
async fn s026_other_parameters_change_nothing() {
    let (server, _) = server().await;
    let path = format!("{V2}/namespaces/ns/pods/*/m");
    let plain = server.get(&path).await.body;
    for query in [
        "limit=1",
        "continue=abc",
        "resourceVersion=0",
        "x=y&&=",
        "timeoutSeconds=1",
        "at=noon",
    ] {
        assert_eq!(
            server.get(&format!("{path}?{query}")).await.body,
            plain,
            "{query}"
        );
    }
}

#[tokio::test]
async fn s027_watching_is_refused_and_timeouts_are_checked() {
    let (server, _) = server().await;
    let custom = format!("{V2}/namespaces/ns/pods/*/m");
    let external = format!("{EXT}/namespaces/ns/queue_depth");
    for path in [&custom, &external] {
        for (query, code) in [
            ("watch=true", 405),
            ("watch", 405),
            ("watch=false", 200),
            ("watch=0", 200),
            ("timeout=5s", 200),
            ("timeout=0", 200),
            ("timeout=abc", 400),
        ] {
            let answer = server.get(&format!("{path}?{query}")).await;
            assert_eq!(answer.status, code, "{path} {query}");
        }
    }
    let body = status(&server.get(&format!("{custom}?watch=1")).await);
    assert_eq!(
        body["message"],
        "watch is not supported on resources of kind \"pods.custom.metrics.k8s.io\""
    );
    let group = "custom.metrics.k8s.io";
    assert_eq!(
        body["details"],
        serde_json::json!({"group": group, "kind": "pods"})
    );
    let message = status(&server.get(&format!("{custom}?timeout=abc")).await)["message"].clone();
    let wanted = "invalid timeout specified in the request URL - time: invalid duration \"abc\"";
    assert_eq!(message, wanted);
}

/// An explanation reveals the value, so it needs the same access.
#[tokio::test]
async fn an_explanation_is_for_one_value_and_cannot_be_watched() {
    let (server, _) = server().await;
    for (path, code) in [
        (
            format!("{V2}/namespaces/ns/pods/a/m?explain=true&watch=true"),
            405,
        ),
        (
            format!("{EXT}/namespaces/ns/m?explain=true&watch=true"),
            405,
        ),
        (format!("{V2}/namespaces/ns/pods/*/m?explain=true"), 400),
    ] {
        assert_eq!(status(&server.get(&path).await)["code"], code, "{path}");
    }
}
