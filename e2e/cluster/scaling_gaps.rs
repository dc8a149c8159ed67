//! The autoscaler and kubectl while something is missing: readings, versions of the
//! API, Prometheus, the server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lab::{APISERVICES, Lab, PATIENCE, PODS};
use super::scaling::Autoscaler;
use super::workload::on_pods;
use crate::program::{eventually, ok_if};

/// Waits until this many pods have this value.
fn await_pods(lab: &Lab, count: usize, value: &str) {
    lab.await_values(PODS, count, value);
}

#[tokio::test(flavor = "multi_thread")]
async fn s111_s113_s115_missing_data_and_components_do_not_scale_down() {
    let mut lab = Lab::start().await;
    lab.deploy(3);
    lab.gpus.work(45);
    await_pods(&lab, 3, "45");
    s111_one_of_three_without_data_is_no_reason_to_shrink(&lab);
    s111_all_without_data_are_no_reason_for_anything(&lab);
    s113_either_version_alone_will_do(&lab);
    s115_without_prometheus_the_cluster_works_on(&mut lab).await;
    s115_a_server_that_was_away_is_back(&mut lab);
}

/// If the unknown value counted as 0, two replicas would be sufficient.
fn s111_one_of_three_without_data_is_no_reason_to_shrink(lab: &Lab) {
    let scaler = Autoscaler::start(lab, 8, &on_pods("gpu_memory_utilization", "50"));
    scaler.await_seen("45");
    lab.gpus.silence(2);
    await_pods(lab, 2, "45");
    // The values that the autoscaler reads from now on are of two pods.
    lab.gpus.work(46);
    scaler.await_seen("46");
    scaler.await_active("True");
    assert_eq!((lab.replicas(), scaler.sizes()), (3, vec![]));
    lab.gpus.resume();
    await_pods(lab, 3, "46");
    scaler.end();
}

fn s111_all_without_data_are_no_reason_for_anything(lab: &Lab) {
    let scaler = Autoscaler::start(lab, 8, &on_pods("gpu_memory_utilization", "50"));
    scaler.await_active("True");
    (0..3).for_each(|node| lab.gpus.silence(node));
    let message = scaler.await_active("False");
    assert!(
        message.contains("has enough fresh samples for gpu_memory_utilization"),
        "{message}"
    );
    assert_eq!((lab.replicas(), scaler.sizes()), (3, vec![]));
    lab.gpus.resume();
    scaler.await_active("True");
    assert_eq!((lab.replicas(), scaler.sizes()), (3, vec![]));
    scaler.end();
}

/// The versions of a group that kube-apiserver serves.
fn versions(lab: &Lab) -> Vec<String> {
    let said = lab.plane.kubectl(&["api-versions"]);
    said.lines()
        .filter_map(|line| line.strip_prefix("custom.metrics.k8s.io/"))
        .map(str::to_owned)
        .collect()
}

fn await_versions(lab: &Lab, wanted: &[&str]) {
    eventually(&format!("versions {wanted:?}"), PATIENCE, || {
        let found = versions(lab);
        ok_if(found == wanted, &found)
    });
}

/// An APIService as first applied, without a bundle.
fn without_bundle(lab: &Lab, name: &str) -> Value {
    let mut object = lab.plane.object(&["apiservice", name]);
    let spec = object["spec"].as_object_mut().unwrap();
    spec.remove("caBundle");
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn s113_either_version_alone_will_do(lab: &Lab) {
    let scaler = Autoscaler::start(lab, 8, &on_pods("gpu_memory_utilization", "50"));
    let [newer, older, _] = APISERVICES;
    for (gone, left, percent) in [(newer, "v1beta1", 47), (older, "v1beta2", 48)] {
        let service = without_bundle(lab, gone);
        lab.plane.kubectl(&["delete", "apiservice", gone]);
        await_versions(lab, &[left]);
        lab.gpus.work(percent);
        scaler.await_seen(&percent.to_string());
        lab.plane.apply(&service);
        // The server must fill in its authority.
        lab.await_available();
        await_versions(lab, &["v1beta1", "v1beta2"]);
    }
    lab.gpus.work(49);
    scaler.await_seen("49");
    scaler.end();
}

/// A namespace is created and deleted, and kubectl finds every group.
fn nothing_else_suffers(lab: &Lab) {
    lab.plane.kubectl(&["create", "namespace", "passing"]);
    lab.plane.run("delete namespace passing --timeout=60s");
    lab.plane.kubectl(&["api-resources"]);
}

async fn s115_without_prometheus_the_cluster_works_on(lab: &mut Lab) {
    lab.prometheus.kill();
    eventually("an end of values", PATIENCE, || {
        lab.plane.read(PODS).map_or(Ok(()), Err)
    });
    nothing_else_suffers(lab);
    lab.await_available();
    lab.prometheus.restart().await;
    await_pods(lab, 3, "49");
}

/// The limit in statement 115.
const RECOVERED: Duration = Duration::from_secs(60);

fn s115_a_server_that_was_away_is_back(lab: &mut Lab) {
    lab.end_server("KILL");
    eventually("an unavailable APIService", PATIENCE, || {
        lab.unavailable(APISERVICES[0]).ok_or_else(String::new)
    });
    // Kubernetes does not delete a namespace while a group is unavailable.
    lab.plane.kubectl(&["create", "namespace", "passing"]);
    lab.plane.run("delete namespace passing --wait=false");
    lab.start_server();
    // The server is listening.
    let begun = Instant::now();
    lab.await_available();
    await_pods(lab, 3, "49");
    nothing_is_left_of(lab, "passing");
    assert!(begun.elapsed() < RECOVERED, "statement 115");
    nothing_else_suffers(lab);
}

fn nothing_is_left_of(lab: &Lab, namespace: &str) {
    eventually("a deleted namespace", PATIENCE, || {
        let said = lab.plane.object(&["namespace"]);
        let items = said["items"].as_array().unwrap();
        let left = items.iter().find(|it| it["metadata"]["name"] == namespace);
        left.map_or(Ok(()), |left| Err(left["status"].to_string()))
    });
}
