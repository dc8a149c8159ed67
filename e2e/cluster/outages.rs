//! Each component is stopped once, during constant requests. Failures and their durations
//! are printed; a served value must be correct.

use std::time::Duration;

use super::asking::{ApiClient, Reply, identity_of};
use super::scene::{ALL, AVAILABLE, NUMBERS, Scene};

/// Longer than the time for which readings are valid.
const AWAY: Duration = Duration::from_secs(20);

/// The load of the GPUs, first and later.
const BEFORE: u32 = 60;
const AFTER: u32 = 90;

/// Values during the change: means of both loads.
const BETWEEN: std::ops::RangeInclusive<u64> = 60..=90;

#[tokio::test(flavor = "multi_thread")]
async fn no_wrong_value_is_served_while_components_stop_and_start() {
    let mut scene = Scene::start(BEFORE).await;
    prometheus_is_away(&mut scene).await;
    kube_apiserver_restarts(&scene).await;
    // TERM as when a Deployment ends a pod, KILL as when a node fails.
    for signal in ["TERM", "KILL"] {
        the_server_restarts(&mut scene, signal);
    }
    scene.assert_right(scene.settled, &BETWEEN);
}

async fn prometheus_is_away(scene: &mut Scene) {
    let from = scene.trickle.now();
    scene.lab.prometheus.kill();
    scene.await_silence(from, &NUMBERS);
    // The load of the GPUs changes during the outage.
    scene.lab.gpus.work(AFTER);
    tokio::time::sleep(AWAY).await;
    let ready = ApiClient::direct(scene.lab.port, None).get("/readyz").await;
    assert_eq!(
        ready.code(),
        Some(200),
        "the server itself is well: {ready:?}"
    );
    let silent = scene.trickle.now();
    scene.lab.prometheus.restart().await;
    let back = scene.trickle.now();
    scene.await_answers(back, &ALL);
    let answers = scene.trickle.now();
    scene.await_percent(back, AFTER);
    scene.tell("Prometheus away", from);
    println!(
        "  away for {:.1?}; answers {:.1?} after it was back",
        silent - from,
        answers - back
    );
    let server = scene.lab.server.as_ref().unwrap();
    server.await_stderr("answers again after");
    let log = server.stderr();
    let told = log
        .matches("polling continues; the last known values expire at their usual time")
        .count();
    // The error is logged at most once for each reason: the running query breaks off, the
    // port has no listener, and the new process is not ready.
    assert!((1..=3).contains(&told), "{log}");
    scene.assert_answered(from, &[AVAILABLE]);
    for subject in NUMBERS {
        for seen in scene.trickle.since(from, subject) {
            let Some(trouble) = seen.trouble else {
                continue;
            };
            let reasons = [
                "fresh samples",
                "no new samples",
                "silent since",
                "too few readings",
            ];
            let is_told = reasons.iter().any(|reason| trouble.contains(reason));
            assert!(is_told, "{trouble}");
        }
    }
}

async fn kube_apiserver_restarts(scene: &Scene) {
    let from = scene.trickle.now();
    scene.lab.plane.stop_apiserver();
    let ready = ApiClient::direct(scene.lab.port, None).get("/readyz").await;
    assert_eq!(ready.code(), Some(200), "what is known is kept: {ready:?}");
    scene.lab.plane.start_apiserver();
    let back = scene.trickle.now();
    scene.await_answers(back, &ALL);
    scene.tell("kube-apiserver restarted", from);
    println!("  refused by the server itself:\n{}", refusals(scene).await);
    println!(
        "  it served {:.1?} after its end, all was well {:.1?} later",
        back - from,
        scene.trickle.now() - back
    );
    scene.assert_right(back, &(u64::from(AFTER)..=u64::from(AFTER)));
}

/// The requests that the server refused. A 403 of a kube-apiserver that has not read its
/// own rules yet does not reach the server.
async fn refusals(scene: &Scene) -> String {
    let admin = identity_of(scene.lab.plane.kubeconfig());
    let api_client = ApiClient::direct(scene.lab.port, Some(admin));
    let Reply::Body(metrics) = api_client.get("/metrics").await else {
        panic!("no metrics");
    };
    let counted = |line: &&str| line.contains("_requests_refused") && !line.ends_with(" 0.0");
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    lines.filter(counted).collect::<Vec<_>>().join("\n")
}

fn the_server_restarts(scene: &mut Scene, signal: &str) {
    let from = scene.trickle.now();
    let end = scene.lab.end_server(signal);
    let gone = scene.trickle.now();
    end.assert_orderly();
    if signal == "TERM" {
        assert_eq!(end.code, Some(0), "{end:?}");
    }
    scene.lab.start_server();
    let back = scene.trickle.now();
    scene.await_answers(back, &ALL);
    scene.tell(&format!("the server restarted after SIG{signal}"), from);
    println!(
        "  it ended {:.1?} after the signal, all was well {:.1?} after its start",
        gone - from,
        scene.trickle.now() - gone
    );
    scene.assert_right(back, &(u64::from(AFTER)..=u64::from(AFTER)));
}
