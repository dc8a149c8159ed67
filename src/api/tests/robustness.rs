use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn s087_every_failure_is_a_status() {
    let (server, _) = server().await;
    let below = |target: &str| format!("{V2}/namespaces/ns/pods/{target}");
    let of_pods = "c/m */nope */m?labelSelector=%3D */m?watch=1 */%zz";
    let others = "/apis/nope /apis/custom.metrics.k8s.io/v1 /api/v1/pods /";
    let others = others.split(' ').map(str::to_owned);
    let targets = of_pods.split(' ').map(below).chain(others);
    let gets = targets.map(|target| ("GET", target, ""));
    let post = ("POST", below("*/m"), "");
    let html = ("GET", below("*/m"), "text/html");
    for (method, target, accept) in gets.chain([post, html]) {
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
    let answer = pods(&server, "a/expensive").await;
    assert_eq!(status(&answer)["reason"], "TooManyRequests");
    let after = answer.header("retry-after");
    assert_eq!((answer.status, after), (429, Some("1")));
}

#[tokio::test]
async fn s088_dot_segments_reach_nothing() {
    let (server, fixture) = server().await;
    let below = "/namespaces/ns/pods/..%2f..%2fsecrets/m /namespaces/ns/pods/%2e%2e/m \
                 /namespaces/ns/pods/../m /namespaces/ns/../other/pods/*/m \
                 /namespaces//pods/a/m //namespaces/ns/pods/a/m /namespaces/ns/pods/a/m//";
    let below = below.split(' ').map(|target| format!("{V2}{target}"));
    let others = ["/../../api/v1/secrets", "//apis"].map(str::to_owned);
    for target in below.chain(others) {
        let answer = server.get(&target).await;
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
        let answer = pods(&server, &format!("{piece}/m")).await;
        assert_eq!(status(&answer)["code"], 404, "{piece}");
    }
    assert_eq!(fixture.times_asked(), 0);
    assert_eq!(names(&pods(&server, "%61/m").await), ["a"]);
}

#[tokio::test]
async fn s091_oversized_requests_are_refused_quickly() {
    let (server, fixture) = server().await;
    let began = Instant::now();
    let pods = format!("{V2}/namespaces/ns/pods/*/m");
    let many: Vec<String> = (0..10_000).map(|index| format!("k{index}")).collect();
    let selector = encode(&many.join(","));
    for target in [
        format!("{pods}?labelSelector={}", "a".repeat(60_000)),
        format!("{pods}?labelSelector={}", &selector[..60_000]),
        format!("{pods}?x={}", "a".repeat(1 << 20)),
        format!("/{}", "a".repeat(1 << 20)),
    ] {
        let code = server.get(&target).await.status;
        assert!(matches!(code, 400 | 413 | 414 | 431), "{code}");
    }
    let lines: Vec<String> = (0..2000).map(|index| format!("X-{index}")).collect();
    let lines: Vec<_> = lines.iter().map(|name| (name.as_str(), "y")).collect();
    assert_eq!(server.send("GET", &pods, &lines).await.status, 431);
    assert_eq!(server.send("GET", &pods, &lines[..100]).await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(fixture.times_asked(), 1);
}

#[tokio::test]
async fn s092_names_with_a_special_meaning_elsewhere_are_only_names() {
    let (server, _) = server().await;
    let queries = ["m\"} or vector(1)", "m{a=\"b\"}", "m' OR 1"];
    for metric in queries
        .into_iter()
        .chain(["<script>", "m\u{202e}x", "$(id)"])
    {
        let answer = pods(&server, &format!("*/{}", encode(metric))).await;
        let body = status(&answer);
        assert_eq!(body["code"], 404, "{metric}");
        let message = body["message"].as_str().unwrap();
        assert!(!message.contains(['<', '\u{202e}']), "{message}");
    }
    for selector in ["a=\"b\"", "a={b}", "a=b\\", "a=\"} or vector(1)", "a=b\nc"] {
        let value = encode(selector);
        for parameter in ["labelSelector", "metricLabelSelector"] {
            let answer = pods(&server, &format!("*/m?{parameter}={value}")).await;
            assert_eq!(status(&answer)["code"], 400, "{selector}");
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
