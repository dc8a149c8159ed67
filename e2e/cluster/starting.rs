//! Pods that load a model while the demand stays the same.

use std::time::Duration;

use super::lab::{CONFIG, Lab, PODS};
use super::scaling::Autoscaler;
use super::workload::on_pods;

/// The time from the start of a pod to its readiness.
const LOADING: Duration = Duration::from_secs(12);

/// The demand, in percent of a GPU. With a target of 50 it needs four pods: three are beyond the
/// tolerance.
const DEMAND: u32 = 188;

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_load_a_model_cause_no_further_pods() {
    let mut lab = Lab::start().await;
    lab.gpus.serve(DEMAND, LOADING);
    lab.deploy(1);
    lab.await_values(PODS, 1, "100");
    let sizes = sizes(&lab);
    assert_eq!(sizes.last(), Some(&4), "{sizes:?}");
    assert!(sizes.is_sorted(), "{sizes:?}");

    // The GPUs of pods that load a model are busy, so they ask for more of them.
    lab.plane.run("scale deployment infer -n team --replicas=1");
    lab.await_replicas(1);
    lab.reconfigure(&CONFIG.replace("gpu: {", "gpu: {includeStarting: true, "));
    lab.await_values(PODS, 1, "100");
    let sizes = self::sizes(&lab);
    assert!(sizes.iter().max() > Some(&4), "{sizes:?}");
}

/// The sizes that an autoscaler sets until all pods are Ready for some time.
fn sizes(lab: &Lab) -> Vec<u64> {
    let scaler = Autoscaler::start(lab, 12, &on_pods("gpu_memory_utilization", "50"));
    scaler.await_seen("47");
    let sizes = scaler.sizes();
    println!("sizes for the manual: {sizes:?}");
    scaler.end();
    sizes
}
