use std::time::{Duration, Instant};

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
        let build = "\n# TYPE gpu_metrics_apiserver_build_info gauge\n";
        assert!(text.contains(build));
    }
}

#[tokio::test]
async fn checks_answer_as_those_of_kube_apiserver_do() {
    let (server, telemetry) = counted().await;
    let watches = telemetry.health.register("watches", false);
    let failed = "[+]ping ok\n[-]watches failed: reason withheld\nreadyz check failed\n";
    let answer = server.get("/readyz").await;
    assert_eq!((answer.status, &*answer.text()), (500, failed));
    for path in ["/livez", "/healthz"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &*answer.text()), (200, "ok"), "{path}");
    }
    watches.set(true);
    let verbose = server.get("/readyz?verbose").await.text();
    assert_eq!(verbose, "[+]ping ok\n[+]watches ok\nreadyz check passed\n");
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
