//! Each component is stopped once, during constant requests. A served value must be correct.

use std::time::Duration;

use super::lab::TEAM;
use super::scene::{ALL, AVAILABLE, NUMBERS, Scene, await_value};
use crate::asking::ApiClient;

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
    let told = "polling continues; the last known values expire at their usual time";
    scene.lab.server.as_ref().unwrap().await_stderr(told);
    scene.await_silence(from, &NUMBERS);
    // The load of the GPUs changes during the outage.
    scene.lab.gpus.work(AFTER);
    let ready = ApiClient::direct(scene.lab.port, None).get("/readyz").await;
    assert_eq!(ready.code, 200, "the server itself is well: {ready:?}");
    scene.lab.prometheus.restart().await;
    let back = scene.trickle.now();
    scene.await_answers(back, &ALL);
    scene.await_percent(back, AFTER);
    let server = scene.lab.server.as_ref().unwrap();
    server.await_stderr("answers again after");
    let log = server.stderr();
    let told = log.matches(told).count();
    // The error is logged at most once for each reason: the running query breaks off, the
    // port has no listener, and the new process is not ready.
    assert!((1..=3).contains(&told), "{log}");
    scene.assert_answered(from, &[AVAILABLE]);
    for subject in NUMBERS {
        for seen in scene.trickle.since(from, subject) {
            let Some(trouble) = seen.trouble else {
                continue;
            };
            let reasons = ["fresh samples", "silent since", "too few readings"];
            let is_told = reasons.iter().any(|reason| trouble.contains(reason));
            assert!(is_told, "{trouble}");
        }
    }
}

async fn kube_apiserver_restarts(scene: &Scene) {
    scene.lab.plane.stop_apiserver();
    let ready = ApiClient::direct(scene.lab.port, None).get("/readyz").await;
    assert_eq!(ready.code, 200, "what is known is kept: {ready:?}");
    scene.lab.plane.start_apiserver();
    let back = scene.trickle.now();
    scene.await_answers(back, &ALL);
    scene.assert_right(back, &(u64::from(AFTER)..=u64::from(AFTER)));
}

fn the_server_restarts(scene: &mut Scene, signal: &str) {
    let end = scene.lab.end_server(signal);
    end.assert_orderly();
    if signal == "TERM" {
        assert_eq!(end.code, Some(0), "{end:?}");
    }
    scene.lab.start_server();
    let back = scene.trickle.now();
    scene.await_answers(back, &ALL);
    scene.assert_right(back, &(u64::from(AFTER)..=u64::from(AFTER)));
}

/// How long kube-apiserver is stopped.
const MINUTES: Duration = Duration::from_secs(300);

/// Longer than the time for which readings are valid.
const AFTERWARDS: Duration = Duration::from_secs(20);

/// A Deployment that the restored etcd does not contain.
const LATER: &str = "later";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn kube_apiserver_stops_for_minutes_and_restarts_with_older_objects() {
    let scene = Scene::start(BEFORE).await;
    scene.lab.plane.keep_objects();
    scene.await_answers(scene.trickle.now(), &ALL);
    scene.lab.deploy_as(LATER, 1);
    let later = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/deployments.apps/{LATER}\
         /gpu_held_count"
    );
    await_value(&scene.reader, &later, "1").await;
    scene.lab.plane.restore_objects();
    tokio::time::sleep(MINUTES).await;
    let ready = ApiClient::direct(scene.lab.port, None).get("/readyz").await;
    assert_eq!(ready.code, 200, "what is known is kept: {ready:?}");
    scene.lab.plane.start_apiserver();
    scene.await_percent(scene.trickle.now(), BEFORE);
    let back = scene.trickle.now();
    scene.reader.until_code(&later, 404).await;
    tokio::time::sleep(AFTERWARDS).await;
    scene.assert_right(back, &(u64::from(BEFORE)..=u64::from(BEFORE)));
    scene.assert_answered(back, &ALL);
}
