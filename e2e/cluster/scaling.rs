//! The autoscaler of a real kube-controller-manager scales a Deployment on our
//! metrics.

use std::time::Duration;

use serde_json::json;

use super::lab::{APP, Lab, PATIENCE, TEAM};
use crate::program::eventually;

const SYNC: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_service_grows_to_its_maximum_and_an_idle_one_shrinks_to_one() {
    let lab = Lab::start(SYNC).await;
    lab.deploy(1);
    lab.gpus.work(90);
    lab.autoscale(
        4,
        &json!([{
            "type": "Pods",
            "pods": {
                "metric": {"name": "gpu_memory_utilization"},
                "target": {"type": "AverageValue", "averageValue": "50"},
            },
        }]),
    );
    lab.await_replicas(4);
    lab.gpus.work(0);
    lab.await_replicas(1);
    let path = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/deployments.apps/{APP}/gpu_held_count"
    );
    eventually("one GPU held", PATIENCE, || {
        let said = lab.plane.kubectl(&["get", "--raw", &path]);
        said.contains("\"value\":\"1\"").then_some(()).ok_or(said)
    });
}
