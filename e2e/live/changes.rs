//! Held and reassigned GPUs, and an exporter that falls silent.

use super::scene::{
    CLUSTER, EXTERNAL, PATIENCE, PODS_A, PODS_B, Scene, TEAM_A, TEAM_B, WINDOW, milli, of_window,
    pair,
};
use crate::kubectl::Served;
use crate::program::eventually;
use crate::prometheus::{Engine, Storage};

/// The values of `PODS_A` at the start.
const VALUES_A: [(&str, &str); 3] = [("far-0", "80"), ("idle-0", "0"), ("train-0", "50")];

const NODES: &str = "/apis/custom.metrics.k8s.io/v1beta2/nodes";

/// Accepts only this value.
fn only<'a>(name: &'a str, value: &'a str) -> impl Fn(&Served) -> bool {
    move |served| served.name != name || served.value == value
}

#[tokio::test(flavor = "multi_thread")]
async fn every_object_has_the_readings_of_the_gpus_it_holds() {
    let scene = Scene::start().await;
    let nodes: Vec<&str> = scene
        .fleet
        .nodes()
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    let external = |name: &str| format!("{EXTERNAL}/{name}");
    let named = "gpu_memory_utilization";
    scene.await_values(&format!("{TEAM_A}/metrics/{named}"), &[("team-a", "60")]);
    scene.await_values(&format!("{TEAM_B}/metrics/{named}"), &[("team-b", "25")]);
    scene.await_values(
        &format!("{NODES}/*/{named}"),
        &[(nodes[0], "40"), (nodes[1], "55")],
    );
    scene.await_values(&external(named), &[(named, "60")]);
    let sum = "cluster_gpu_memory_utilization_sum";
    scene.await_values(&external(sum), &[(sum, "230")]);
    // A pod that holds an idle GPU has an explicit zero, and counts as idle.
    scene.await_values(&format!("{TEAM_A}/pods/idle-0/{named}"), &[("idle-0", "0")]);
    scene.await_values(
        &format!("{TEAM_A}/pods/idle-0/gpu_idle_count"),
        &[("idle-0", "1")],
    );
    scene.await_values(
        &format!("{TEAM_B}/pods/batch-0/gpu_idle_count"),
        &[("batch-0", "1")],
    );
    scene.await_values(
        &format!("{TEAM_A}/metrics/gpu_held_count"),
        &[("team-a", "4")],
    );
    // The free GPU does not count for the exporter's own pod.
    let exporters = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/gpu-operator/pods/*";
    let message = scene.await_end(&format!("{exporters}/gpu_held_count"), |_| false);
    assert!(
        message.contains("check that its pods hold GPUs"),
        "{message}"
    );
    the_window_fills(&scene);
}

/// Until a window is full, answers contain its current length. A scrape that is late
/// lengthens the window for a time.
fn the_window_fills(scene: &Scene) {
    let full = |served: &Served| served.window == WINDOW;
    eventually("a full window", PATIENCE, || {
        let served = scene.ask(PODS_A).map_err(|answer| format!("{answer:?}"))?;
        let found: Vec<(&str, &str)> = served.iter().map(pair).collect();
        let whole = served.iter().all(full) && found == VALUES_A;
        whole.then_some(()).ok_or_else(|| format!("{served:?}"))
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_handed_over_counts_for_its_new_owner_alone() {
    let scene = Scene::start().await;
    // The change is between two scrapes, so that no reading counts for the wrong holder.
    scene.controls.silence(0);
    scene.controls.reassign(3, "team-b", "fresh-0");
    scene.controls.force_value(3, 90.0);
    scene.controls.resume(0);
    let rightly = |served: &Served| match served.name.as_str() {
        "fresh-0" => served.value == "90",
        "serve-0" => served.value == "20",
        _ => served.value == "30",
    };
    let fresh = format!("{TEAM_B}/pods/fresh-0/gpu_memory_utilization");
    let former = format!("{TEAM_B}/pods/serve-0/gpu_memory_utilization");
    scene.await_values_by_way_of(&fresh, &[("fresh-0", "90")], rightly);
    // While the window has a reading of the former holder, the message has another reason.
    scene.await_end(&former, rightly);
    scene.await_message(&former, "have been reported for another pod");
    scene.await_values_by_way_of(PODS_B, &[("batch-0", "30"), ("fresh-0", "90")], rightly);
    // Values until then are between the two correct values, or those of one node if the
    // other is scraped late.
    let between = |low, high| move |served: &Served| (low..=high).contains(&milli(served));
    scene.await_values_by_way_of(
        CLUSTER,
        &[("cluster_gpu_memory_utilization", "60")],
        between(40_000, 64_000),
    );
    let namespace = format!("{TEAM_B}/metrics/gpu_memory_utilization");
    scene.await_values_by_way_of(&namespace, &[("team-b", "60")], between(25_000, 60_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_exporter_ends_the_values_of_its_pods_only() {
    let scene = Scene::start().await;
    scene.controls.silence(1);
    // far-0 and batch-0 are on the silent node.
    scene.await_values_by_way_of(
        PODS_A,
        &[("idle-0", "0"), ("train-0", "50")],
        only("far-0", "80"),
    );
    let former = format!("{TEAM_B}/pods/batch-0/gpu_memory_utilization");
    scene.await_end(&former, only("batch-0", "30"));
    scene.await_message(&former, "GPUs have been silent since");
    scene.await_values(PODS_B, &[("serve-0", "20")]);
    scene.controls.resume(1);
    scene.await_values_by_way_of(PODS_A, &VALUES_A, |served| VALUES_A.contains(&pair(served)));
    scene.await_values_by_way_of(PODS_B, &[("batch-0", "30"), ("serve-0", "20")], |served| {
        [("batch-0", "30"), ("serve-0", "20")].contains(&pair(served))
    });
    scene.await_values(CLUSTER, &[("cluster_gpu_memory_utilization", "46")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_prometheus_ends_the_values_of_its_pods_only() {
    let mut scene = Scene::start().await;
    // Each node has a Prometheus of its own.
    let near = scene.exporters.scrapes_of_node(0);
    let near = Engine::start(Storage::new(), &near).await;
    let far = scene.exporters.scrapes_of_node(1);
    let mut far = Engine::start(Storage::new(), &far).await;
    let config = format!("prometheus: {{additional: [{{url: '{}'}}]}}\n", far.url());
    let config = of_window(WINDOW) + &config;
    (scene.server, scene.kubectl) = scene.serve_of(&near, "two", &config);
    scene.await_values(PODS_A, &VALUES_A);
    scene.await_values(CLUSTER, &[("cluster_gpu_memory_utilization", "46")]);
    far.kill();
    scene.await_values_by_way_of(PODS_A, &[("idle-0", "0"), ("train-0", "50")], |served| {
        VALUES_A.contains(&pair(served))
    });
    scene.await_end(CLUSTER, |served| milli(served) == 46_000);
    scene.await_values(PODS_B, &[("serve-0", "20")]);
    let findings = "/apis/custom.metrics.k8s.io/v1beta2/findings";
    eventually("the one that ended is named", PATIENCE, || {
        let answer = format!("{:?}", scene.kubectl.get(findings));
        let is_named = answer.contains("GM301") && answer.contains("prometheus.additional[0]");
        is_named.then_some(()).ok_or(answer)
    });
    far.restart().await;
    scene.await_values_by_way_of(PODS_A, &VALUES_A, |served| VALUES_A.contains(&pair(served)));
    scene.await_values(CLUSTER, &[("cluster_gpu_memory_utilization", "46")]);
}
