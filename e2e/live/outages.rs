//! A Prometheus that ends and starts again.

use std::ops::RangeInclusive;

use super::scene::{CLUSTER, EXTERNAL, PODS_A, PODS_B, Scene, TEAM_A, milli};
use crate::kubectl::Answer;

/// The bounds of the cluster's values, in thousandths, while the readings of
/// `train-0` change from 50 to 60. At the edges of an outage an instant may have only
/// one node, and the nodes' means are 40 (then 47) and 55.
const CLUSTER_BETWEEN: RangeInclusive<u64> = 40_000..=55_000;

/// Paths that depend on Prometheus, and the bounds of their values until they end.
const PATHS: [(&str, RangeInclusive<u64>); 3] = [
    (PODS_A, 0..=80_000),
    (PODS_B, 20_000..=30_000),
    (CLUSTER, CLUSTER_BETWEEN),
];

#[tokio::test(flavor = "multi_thread")]
async fn values_end_with_prometheus_and_come_back_with_it() {
    let mut scene = Scene::start().await;
    scene.prometheus.kill();
    for (path, between) in PATHS {
        let within = |served: &_| between.contains(&milli(served));
        let message = scene.await_end(path, within);
        let reasons = ["fresh samples", "no new samples", "silent since"];
        let is_told = reasons.iter().any(|reason| message.contains(reason));
        assert!(is_told, "{message}");
    }
    the_server_itself_stays_well(&scene);
    // The readings change during the outage.
    scene.controls.force_value(0, 50.0);
    scene.controls.force_value(1, 70.0);
    scene.prometheus.restart().await;
    scene.await_values_by_way_of(
        PODS_A,
        &[("far-0", "80"), ("idle-0", "0"), ("train-0", "60")],
        |served| match served.name.as_str() {
            "train-0" => (50_000..=60_000).contains(&milli(served)),
            "far-0" => served.value == "80",
            _ => served.value == "0",
        },
    );
    scene.await_values(PODS_B, &[("batch-0", "30"), ("serve-0", "20")]);
    scene.await_values_by_way_of(
        CLUSTER,
        &[("cluster_gpu_memory_utilization", "50")],
        |served| CLUSTER_BETWEEN.contains(&milli(served)),
    );
    scene.server.await_stderr("answers again after");
    let log = scene.server.stderr();
    let told = log.matches("polling goes on, known values age").count();
    // At most once for each reason: the running query breaks off, the port has no
    // listener, and the new process is not ready.
    assert!((1..=3).contains(&told), "{log}");
}

fn the_server_itself_stays_well(scene: &Scene) {
    assert_eq!(scene.kubectl.get("/readyz"), Answer::Body("ok".to_owned()));
    for group in [
        "custom.metrics.k8s.io/v1beta2",
        "external.metrics.k8s.io/v1beta1",
    ] {
        let Answer::Body(body) = scene.kubectl.get(&format!("/apis/{group}")) else {
            panic!("no discovery of {group}")
        };
        assert!(body.contains("gpu_memory_utilization"), "{body}");
    }
    // Repeated requests get no invented values.
    let asked = [
        PODS_A.to_owned(),
        format!("{TEAM_A}/pods/train-0/gpu_memory_utilization"),
        format!("{TEAM_A}/metrics/gpu_held_count"),
        format!("{EXTERNAL}/avg_GPU_utilization"),
        format!("{EXTERNAL}/cluster_gpu_active_count"),
    ];
    for path in &asked {
        scene.await_end(path, |_| true);
    }
    for path in asked.iter().cycle().take(3 * asked.len()) {
        let answer = scene.kubectl.get(path);
        assert!(
            matches!(answer, Answer::NotFound(_)),
            "{answer:?} at {path}"
        );
    }
}
