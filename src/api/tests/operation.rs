use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;

/// A server that counts its requests, and its telemetry.
async fn counted() -> (TestServer, Telemetry) {
    let telemetry = Telemetry::new().unwrap();
    let fixture = Arc::new(Fixture::new());
    let api = Api::new(fixture, || NOW, telemetry.clone());
    (TestServer::start(open(&api)).await, telemetry)
}

fn rows(telemetry: &Telemetry) -> Vec<String> {
    let text = telemetry.metrics.render().unwrap();
    let lines = text.lines();
    let rows = lines.filter(|line| line.starts_with("gpu_metrics_apiserver_requests_total"));
    rows.map(str::to_owned).collect()
}

#[tokio::test]
async fn s106_invalid_paths_add_no_series() {
    let (server, telemetry) = counted().await;
    let round = async |round: usize| {
        let agent = format!("agent/{round}");
        for path in [
            format!("{V2}/namespaces/n{round}/pods/p{round}/m{round}"),
            format!("{V2}/namespaces/n{round}/things{round}/x/m"),
            format!("{V2}/namespaces/n{round}/metrics/m{round}"),
            format!("{V2}/nodes{round}/x/m"),
            format!("{EXT}/namespaces/ns/metric{round}"),
            format!("/apis/group{round}/v1"),
            format!("/readyz/check{round}"),
            format!("/{round}"),
            format!("/livez?verbose={round}"),
        ] {
            server.send("GET", &path, &[("User-Agent", &agent)]).await;
        }
        let rows = rows(&telemetry);
        let names = rows.iter().filter_map(|row| row.rsplit_once(' '));
        let mut names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    };
    let first = round(0).await;
    assert!(!first.is_empty());
    for number in 1..20 {
        assert_eq!(round(number).await, first);
    }
}

#[tokio::test]
async fn requests_are_counted_by_group_and_resource() {
    let (server, telemetry) = counted().await;
    let pods = format!("{V2}/namespaces/ns/pods/*/m");
    for (method, path) in [
        ("GET", pods.as_str()),
        ("GET", pods.as_str()),
        ("POST", pods.as_str()),
        ("GET", &format!("{EXT}/namespaces/ns/queue_depth")),
        ("GET", &format!("{EXT}/namespaces/ns/queue_depth?watch=1")),
        ("GET", "/apis"),
        ("GET", V1),
        ("GET", "/openapi/v2"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("BREW", "/nope"),
    ] {
        server.send(method, path, &[]).await;
    }
    let (custom, external) = ("custom.metrics.k8s.io", "external.metrics.k8s.io");
    let mut wanted: Vec<String> = [
        (custom, "custom", 200, 2),
        (custom, "custom", 405, 1),
        (external, "external", 200, 1),
        (external, "external", 405, 1),
        ("", "discovery", 200, 2),
        ("", "openapi", 200, 1),
        ("", "health", 200, 1),
        ("", "metrics", 200, 1),
        ("", "other", 404, 1),
    ]
    .map(|(group, resource, code, count)| {
        format!(
            "gpu_metrics_apiserver_requests_total{{code=\"{code}\",group=\"{group}\",\
             resource=\"{resource}\"}} {count}"
        )
    })
    .into();
    let mut seen = rows(&telemetry);
    wanted.sort();
    seen.sort();
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn metrics_are_served_beside_the_api() {
    let (server, telemetry) = counted().await;
    let health = &telemetry.health;
    let check = health.register("certificates", true);
    for (passes, number) in [(true, 1), (false, 0)] {
        check.set(passes);
        let text = server.get("/metrics").await.text();
        let line = format!("health_check{{name=\"certificates\"}} {number}");
        assert!(text.contains(&line) && text.contains("\nprocess_open_fds "));
    }
    let open = server.get("/readyz").await;
    assert_eq!(open.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn s103_discovery_and_readiness_stay_while_the_backend_is_down() {
    let (server, fixture) = server().await;
    fixture.fail();
    for path in [
        "/apis",
        V1,
        V2,
        EXT,
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
    ] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    for path in [
        format!("{V2}/namespaces/ns/pods/*/m"),
        format!("{EXT}/namespaces/ns/queue_depth"),
    ] {
        let answer = server.get(&path).await;
        assert_eq!(status(&answer)["reason"], "ServiceUnavailable");
        assert_eq!((answer.status, answer.header("retry-after")), (503, None));
    }
    assert_eq!(server.get("/readyz").await.status, 200);
}

async fn ask(router: &Router, target: &str) -> (u16, String) {
    let request = http::Request::get(target).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

fn opened(telemetry: &Telemetry) -> Router {
    let api = Api::new(Arc::new(Fixture::new()), || NOW, telemetry.clone());
    router::open(&api)
}

#[tokio::test]
async fn checks_answer_as_those_of_kube_apiserver_do() {
    let telemetry = Telemetry::new().unwrap();
    let open = opened(&telemetry);
    let watches = telemetry.health.register("watches", false);
    let failed = "[+]ping ok\n[-]watches failed: reason withheld\nreadyz check failed\n";
    for (target, code, text) in [
        ("/readyz", 500, failed),
        ("/livez", 200, "ok"),
        ("/healthz", 200, "ok"),
        (
            "/livez?x=1&verbose=false",
            200,
            "[+]ping ok\nlivez check passed\n",
        ),
    ] {
        let answer = ask(&open, target).await;
        assert_eq!(answer, (code, text.to_owned()), "{target}");
    }
    watches.set(true);
    let (_, verbose) = ask(&open, "/readyz?verbose").await;
    assert_eq!(verbose, "[+]ping ok\n[+]watches ok\nreadyz check passed\n");
    for path in [
        "/livez/watches",
        "/readyz/watches",
        "/readyz/",
        "/readyzz",
        "/",
        "/metrics/",
    ] {
        assert_eq!(ask(&open, path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn metrics_are_text_and_may_only_be_read() {
    let open = opened(&Telemetry::new().unwrap());
    let (code, body) = ask(&open, "/metrics").await;
    assert_eq!(code, 200);
    assert!(body.contains("\n# TYPE gpu_metrics_apiserver_build_info gauge\n"));
    let asked = |method| {
        let accept = "application/openmetrics-text;version=1.0.0";
        let request = http::Request::builder().method(method).uri("/metrics");
        let request = request.header("accept", accept).body(Body::empty());
        open.clone().oneshot(request.unwrap())
    };
    let given = asked("GET").await.unwrap().headers()["content-type"].clone();
    assert_eq!(given, "text/plain; version=0.0.4");
    let refused = asked("POST").await.unwrap();
    assert_eq!(refused.status(), 405);
    assert_eq!(refused.headers()["allow"], "GET");
}
