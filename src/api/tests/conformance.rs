//! The requests that NVIDIA's validator of AI clusters sends to a metrics adapter
//! (NVIDIA/aicr `validators/conformance/pod_autoscaling_check.go` and
//! `ai_service_metrics_check.go`).

use crate::provider::composite::Composite;
use crate::provider::tests::explained::three_gpus;

use super::*;

/// The metrics and namespaces that the check tries until one has items.
const POD_METRICS: [&str; 3] = ["gpu_utilization", "gpu_memory_used", "gpu_power_usage"];
const NAMESPACES: [&str; 2] = ["gpu-operator", "dynamo-system"];

async fn serving() -> TestServer {
    let (gpus, now) = three_gpus();
    let provider = Arc::new(Composite::from(gpus));
    let api = Api::new(provider, move || now, Telemetry::new().unwrap());
    TestServer::start(open(&api)).await
}

/// The requests are in the order of the validator.
#[tokio::test]
async fn nvidias_validator_passes() {
    let server = serving().await;
    let discovery = server.get(V1).await.json();
    assert_eq!(discovery["groupVersion"], "custom.metrics.k8s.io/v1beta1");
    assert!(!discovery["resources"].as_array().unwrap().is_empty());
    for metric in POD_METRICS {
        let mut found = 0;
        for namespace in NAMESPACES {
            let path = format!("{V1}/namespaces/{namespace}/pods/*/{metric}");
            let items = server.get(&path).await.json()["items"].take();
            found += items.as_array().map_or(0, Vec::len);
        }
        assert!(found > 0, "{metric}");
    }
    // The second namespace is that of the validator's HorizontalPodAutoscaler.
    for namespace in ["default", "hpa-test-0a1b2c3d"] {
        let path = format!("{EXT}/namespaces/{namespace}/dcgm_gpu_power_usage");
        let items = server.get(&path).await.json()["items"].take();
        assert_eq!(items.as_array().unwrap().len(), 1, "{items}");
        assert_eq!(items[0]["metricName"], "dcgm_gpu_power_usage");
        assert_eq!(items[0]["value"], "230");
    }
    for (metric, wanted) in [
        ("dcgm_gpu_utilization", "50"),
        ("dcgm_gpu_memory_used", "2001"),
    ] {
        let path = format!("{EXT}/namespaces/default/{metric}");
        let item = server.get(&path).await.json()["items"][0].take();
        assert_eq!(item["value"], wanted, "{metric}");
        assert_eq!(item["window"], 120, "{metric}");
        assert_eq!(item["metricLabels"], serde_json::json!({}));
    }
    let listed = server.get(EXT).await.json();
    let listed = listed["resources"].as_array().unwrap().iter();
    let listed = listed.filter(|it| it["name"].as_str().unwrap().starts_with("dcgm_"));
    assert_eq!(listed.count(), 3);
}

#[tokio::test]
async fn means_of_the_fleet_accept_settings_and_labels_like_other_metrics() {
    let server = serving().await;
    let power = |selector: &str| {
        let path = format!("{EXT}/namespaces/default/DCGM_GPU_POWER_USAGE");
        format!("{path}?labelSelector={selector}")
    };
    let minute = server.get(&power("window%3D1m")).await.json();
    assert_eq!(minute["items"][0]["window"], 60);
    assert_eq!(minute["items"][0]["value"], "230");
    let one = server.get(&power("gpu%3D2")).await.json();
    assert_eq!(one["items"][0]["value"], "50");
    let none = server.get(&power("gpu%3D9")).await;
    assert_eq!(status(&none)["code"], 404);
}
