use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn s087_every_failure_is_a_status() {
    let (server, _) = server().await;
    for (method, target, accept) in [
        ("GET", "/apis/nope".to_owned(), ""),
        ("GET", "/apis/custom.metrics.k8s.io/v1".to_owned(), ""),
        ("GET", "/api/v1/pods".to_owned(), ""),
        ("GET", "/".to_owned(), ""),
        ("GET", format!("{V2}/namespaces/ns/pods/c/m"), ""),
        ("GET", format!("{V2}/namespaces/ns/pods/*/nope"), ""),
        (
            "GET",
            format!("{V2}/namespaces/ns/pods/*/m?labelSelector=%3D"),
            "",
        ),
        ("GET", format!("{V2}/namespaces/ns/pods/*/m?watch=1"), ""),
        ("GET", format!("{V2}/namespaces/ns/pods/*/%zz"), ""),
        ("POST", format!("{V2}/namespaces/ns/pods/*/m"), ""),
        ("GET", format!("{V2}/namespaces/ns/pods/*/m"), "text/html"),
    ] {
        let answer = server.send(method, &target, &[("Accept", accept)]).await;
        assert!(answer.status >= 400, "{target}");
        status(&answer);
        assert_eq!(answer.header("cache-control"), Some("no-cache, private"));
        assert!(answer.header("audit-id").is_some());
    }
}

#[tokio::test]
async fn work_beyond_the_limit_gets_429() {
    let (server, _) = server().await;
    let path = format!("{V2}/namespaces/ns/pods/a/expensive");
    let answer = server.get(&path).await;
    assert_eq!(status(&answer)["reason"], "TooManyRequests");
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("1"))
    );
}

#[tokio::test]
async fn s088_dot_segments_reach_nothing() {
    let (server, fixture) = server().await;
    for target in [
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/..%2f..%2fsecrets/m",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/%2e%2e/m",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/../m",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/../other/pods/*/m",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces//pods/a/m",
        "/apis/custom.metrics.k8s.io/v1beta2//namespaces/ns/pods/a/m",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/a/m//",
        "/../../api/v1/secrets",
        "//apis",
    ] {
        let answer = server.get(target).await;
        status(&answer);
        assert!(matches!(answer.status, 400 | 404), "{target}");
    }
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s089_invalid_bytes_in_a_path_are_bad_requests() {
    let (server, fixture) = server().await;
    let pieces = "% %2 %zz %00 %ff %c0%af %0d%0aX:y %0a %7f %5c %2F %2f %C2%85 a% %ed%a0%80";
    for piece in pieces.split(' ') {
        for target in [
            format!("{V2}/namespaces/ns/pods/{piece}/m"),
            format!("{V2}/namespaces/ns/pods/a/{piece}"),
            format!("{V2}/namespaces/{piece}/pods/a/m"),
            format!("{EXT}/namespaces/ns/{piece}"),
        ] {
            let answer = server.get(&target).await;
            assert_eq!(status(&answer)["code"], 400, "{target}");
            assert_eq!(answer.header("x"), None);
        }
    }
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s090_nothing_is_decoded_twice() {
    let (server, fixture) = server().await;
    for piece in ["%252e", "%252e%252e", "%2561", "%252f"] {
        let answer = server
            .get(&format!("{V2}/namespaces/ns/pods/{piece}/m"))
            .await;
        assert_eq!(status(&answer)["code"], 404, "{piece}");
    }
    assert_eq!(fixture.times_asked(), 0);
    let once = server.get(&format!("{V2}/namespaces/ns/pods/%61/m")).await;
    assert_eq!(names(&once), ["a"]);
}

#[tokio::test]
async fn s091_oversized_requests_are_refused_quickly() {
    let (server, fixture) = server().await;
    let began = Instant::now();
    let pods = format!("{V2}/namespaces/ns/pods/*/m");
    let many: Vec<String> = (0..10_000).map(|index| format!("k{index}")).collect();
    let selector = encode(&many.join(","));
    let answers = [
        server
            .get(&format!("{pods}?labelSelector={}", "a".repeat(60_000)))
            .await,
        server
            .get(&format!("{pods}?labelSelector={}", &selector[..60_000]))
            .await,
        server
            .get(&format!("{pods}?x={}", "a".repeat(1 << 20)))
            .await,
        server.get(&format!("/{}", "a".repeat(1 << 20))).await,
    ];
    for answer in &answers {
        assert!(
            matches!(answer.status, 400 | 413 | 414 | 431),
            "{}",
            answer.status
        );
    }
    let lines: Vec<(String, String)> = (0..2000)
        .map(|index| (format!("X-{index}"), "y".to_owned()))
        .collect();
    let lines: Vec<(&str, &str)> = lines
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(server.send("GET", &pods, &lines).await.status, 431);
    assert_eq!(server.send("GET", &pods, &lines[..900]).await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(fixture.times_asked(), 1);
}

#[tokio::test]
async fn s092_names_with_a_special_meaning_elsewhere_are_only_names() {
    let (server, _) = server().await;
    for metric in [
        "m\"} or vector(1)",
        "m{a=\"b\"}",
        "m' OR 1",
        "<script>",
        "m\u{202e}x",
        "$(id)",
    ] {
        let target = format!("{V2}/namespaces/ns/pods/*/{}", encode(metric));
        let answer = server.get(&target).await;
        let body = status(&answer);
        assert_eq!(body["code"], 404, "{metric}");
        let message = body["message"].as_str().unwrap();
        assert!(
            !message.contains('<') && !message.contains('\u{202e}'),
            "{message}"
        );
    }
    for selector in ["a=\"b\"", "a={b}", "a=b\\", "a=\"} or vector(1)", "a=b\nc"] {
        let value = encode(selector);
        for parameter in ["labelSelector", "metricLabelSelector"] {
            let target = format!("{V2}/namespaces/ns/pods/*/m?{parameter}={value}");
            assert_eq!(
                status(&server.get(&target).await)["code"],
                400,
                "{selector}"
            );
        }
    }
}

#[tokio::test]
async fn s100_an_audit_id_is_echoed_only_if_it_is_valid() {
    let (server, _) = server().await;
    let good = "3f1d2c4b-aaaa-bbbb-cccc-1234567890ab";
    let answer = server.send("GET", "/apis", &[("Audit-Id", good)]).await;
    assert_eq!(answer.header("audit-id"), Some(good));
    let long = "a".repeat(65);
    for bad in [long.as_str(), "a b", "<x>", ""] {
        let answer = server.send("GET", "/apis", &[("Audit-Id", bad)]).await;
        let id = answer.header("audit-id").unwrap();
        assert!(id != bad && id.len() == 36, "{bad:?}");
    }
    let other = server.get("/apis").await;
    assert_ne!(answer.header("audit-id"), other.header("audit-id"));
}
