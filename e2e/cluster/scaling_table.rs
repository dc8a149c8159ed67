//! The rows of docs/concepts.md, "What an autoscaler makes of it", with a real
//! autoscaler: ten replicas, two of them busy, eight idle, target 50.

use serde_json::{Value, json};

use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::scaling::Autoscaler;
use super::workload::{external, of_deployment, on_object, on_pods, target};
use crate::program::{eventually, found_if};

/// More replicas than the cluster has GPUs: the last pods hold none.
const MOST: u32 = 20;

const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team";

fn of_cluster(metric: &str, kind: &str) -> Value {
    external(metric, &target(kind, "50"))
}

fn on_deployment(metric: &str, kind: &str) -> Value {
    on_object(metric, &of_deployment(APP), &target(kind, "50"))
}

fn on_namespace(metric: &str, kind: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "name": TEAM});
    on_object(metric, &namespace, &target(kind, "50"))
}

/// Ten replicas, of which two have this load for a whole window. The busy ones are removed
/// last.
fn ten_of_which_two_are_busy(lab: &Lab, percent: u32) {
    lab.deploy(10);
    lab.gpus.concentrate(2, percent);
    lab.await_replicas(10);
    let held = eventually("ten GPUs held", PATIENCE, || {
        found_if(lab.gpus.holders(), |holders| holders.len() == 10)
    });
    let cost = "controller.kubernetes.io/pod-deletion-cost=100";
    let pods = format!("{} {}", held[0], held[1]);
    let annotate = format!("annotate pod {pods} {cost} --overwrite -n {TEAM}");
    lab.plane.run(&annotate);
    let sum = format!(r#""value":"{}""#, 2 * percent);
    for (path, value) in [
        ("metrics/gpu_memory_utilization_sum", sum.as_str()),
        ("metrics/gpu_held_count", r#""value":"10""#),
        ("deployments.apps/infer/gpu_held_count", r#""value":"10""#),
    ] {
        lab.await_answer(&format!("{CUSTOM}/{path}"), |said| said.contains(value));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s110_s112_ten_replicas_become_what_the_formula_says() {
    let lab = Lab::start().await;
    for metric in [
        on_pods("gpu_memory_utilization", "50"),
        of_cluster("cluster_gpu_memory_utilization_sum", "AverageValue"),
        // Statement 112: the name of an external metric arrives in lower case.
        of_cluster("GPU_Memory_Utilization_SUM", "AverageValue"),
        on_deployment("gpu_memory_utilization_sum", "AverageValue"),
        on_namespace("gpu_memory_utilization_sum", "AverageValue"),
    ] {
        ten_of_which_two_are_busy(&lab, 80);
        println!("{metric}");
        let scaler = Autoscaler::start(&lab, MOST, &metric);
        scaler.await_sizes(&[4]);
        // 40 is the value with four replicas, which is stable.
        scaler.await_seen("40");
        assert_eq!(scaler.sizes(), [4]);
        scaler.end();
    }
    // The first size, and the maximum; 26 would be the second size.
    let (first, second) = (16, u64::from(MOST));
    for metric in [
        of_cluster("cluster_gpu_memory_utilization", "Value"),
        on_deployment("gpu_memory_utilization", "Value"),
        on_namespace("gpu_memory_utilization", "Value"),
    ] {
        ten_of_which_two_are_busy(&lab, 80);
        println!("{metric}");
        let scaler = Autoscaler::start(&lab, MOST, &metric);
        scaler.await_sizes_that(&format!("{first}, …, {second}"), |sizes| {
            let [begin, between @ .., end] = sizes else {
                return false;
            };
            // The controller counts the pods that are ready at the time of its sync.
            let is_of_ready =
                |size: &u64| (10..=first).any(|ready: u64| (80 * ready).div_ceil(50) == *size);
            *begin == first && *end == second && between.iter().all(is_of_ready)
        });
        lab.await_replicas(second);
        scaler.end();
    }
}
