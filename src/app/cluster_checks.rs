//! The server's own checks of the cluster. They run every few minutes, and `/metrics`
//! counts their findings. They need permissions that the server works without
//! (`manifests/optional/autoscalers.yaml`). Checks without a permission are skipped.
//!
//! Only `check` makes the checks of the permissions of the server's Deployment.

use std::sync::Arc;
use std::time::Duration;

use super::metrics::count_findings;
use crate::telemetry::metrics::Metrics;
use cluster_checks::inspect;
use cluster_state::client::Client;
use cluster_state::clock;
use findings::codes::{OF_APISERVICES, OF_CONTROLLER, OF_HPAS};
use gpu_metrics::resources::GpuResources;

/// The first round waits until the server has written the APIServices.
const FIRST: Duration = Duration::from_secs(20);

/// Autoscalers rarely change, so an interval of minutes suffices.
const EVERY: Duration = Duration::from_secs(300);

/// Checks the cluster until the task is cancelled.
pub(super) async fn follow(client: Client, gpus: GpuResources, metrics: Arc<Metrics>) {
    let mut wait = FIRST;
    loop {
        // The jitter separates replicas that start at the same time.
        tokio::time::sleep(wait.mul_f64(0.75 + clock::jitter() / 2.0)).await;
        wait = EVERY;
        match inspect(&client, &gpus).await {
            Ok(report) => {
                for codes in [OF_APISERVICES, OF_CONTROLLER, OF_HPAS] {
                    count_findings(&metrics, codes, &report);
                }
            }
            // The findings of the last round stay in force.
            Err(error) => tracing::debug!(%error, "the cluster could not be checked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use cluster_state::testing::fake_kube::{FakeKube, Fault};
    use findings::Report;

    const PATH: &str = "/apis/autoscaling/v2/horizontalpodautoscalers";

    fn hpa(name: &str, target: &str) -> serde_json::Value {
        let metric = json!({"type": "Pods", "pods": {
            "metric": {"name": "gpu_memory_utilization"},
            "target": {"type": "AverageValue", "averageValue": target}}});
        json!({
            "metadata": {"name": name, "namespace": "team", "uid": name},
            "spec": {"maxReplicas": 4, "metrics": [metric], "scaleTargetRef":
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
        })
    }

    async fn looked(kube: &FakeKube) -> (Report, Vec<&'static str>) {
        let client = Client::connect(&kube.access()).await;
        let gpus = GpuResources::from_text("example.com/a100");
        let report = inspect(&client.unwrap(), &gpus).await.unwrap();
        let codes = [OF_APISERVICES, OF_HPAS]
            .concat()
            .into_iter()
            .filter(|code| report.has_checked(code));
        let codes = codes.map(|code| code.id).collect();
        (report, codes)
    }

    #[tokio::test]
    async fn replicas_wait_for_gpus_of_the_configured_resources() {
        let kube = FakeKube::start().await;
        for resource in ["example.com/a100", "nvidia.com/gpu"] {
            let name = resource.replace('/', "-");
            let pod = json!({
                "metadata": {"name": name, "namespace": "team", "uid": name},
                "spec": {"containers": [{"name": "a", "resources": {"limits": {resource: "1"}}}]},
                "status": {"phase": "Pending", "conditions": [{
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "Insufficient GPUs", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            });
            kube.put("/api/v1/pods", pod);
        }
        let (report, _) = looked(&kube).await;
        let waiting = report.findings.iter().filter(|it| it.code == "GM517");
        let waiting: Vec<&str> = waiting.map(|it| &*it.object).collect();
        assert_eq!(waiting, ["Pod team/example.com-a100"]);
    }

    #[tokio::test]
    async fn all_pages_of_autoscalers_are_checked_and_none_without_the_right() {
        let kube = FakeKube::start().await;
        let (plural, kind) = ("horizontalpodautoscalers", "HorizontalPodAutoscaler");
        kube.serve("autoscaling/v2", plural, kind);
        for index in 0..1_003 {
            let target = if index % 1_001 == 0 { "95" } else { "50" };
            kube.put(PATH, hpa(&format!("a{index:04}"), target));
        }
        let both = ["GM504", "GM509"];
        let (report, codes) = looked(&kube).await;
        let high = report.findings.iter().filter(|it| it.code == "GM504");
        assert_eq!(high.count(), 2, "{report:?}");
        assert_eq!(both.map(|code| codes.contains(&code)), [true; 2]);
        kube.fault(PATH, Fault::Forbidden);
        let (report, codes) = looked(&kube).await;
        assert_eq!(both.map(|code| codes.contains(&code)), [false; 2]);
        let mut found = report.findings.iter();
        assert!(!found.any(|it| it.code.starts_with("GM5")));
    }
}
