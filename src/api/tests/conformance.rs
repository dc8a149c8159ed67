//! The requests that NVIDIA's validator of AI clusters sends to a metrics adapter
//! (NVIDIA/aicr `validators/conformance/pod_autoscaling_check.go` and
//! `ai_service_metrics_check.go`).

use std::time::Duration;

use bytes::Bytes;
use gpu_metrics::batch::{Batch, PrometheusId};
use gpu_metrics::dcgm::schemes::ExporterIdentity;
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use prometheus_source::KeyHasher;
use prometheus_source::decode::decode;

use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;

use super::*;

/// The metrics and namespaces that the check tries until one has items.
const POD_METRICS: [&str; 3] = ["gpu_utilization", "gpu_memory_used", "gpu_power_usage"];
const NAMESPACES: [&str; 2] = ["gpu-operator", "dynamo-system"];

/// The exporter's own pod, to which series without `exported_` labels refer.
const EXPORTER: &str = "nvidia-dcgm-exporter-x7";

/// Two GPUs held by a pod of `dynamo-system` and one unheld GPU, over two and a half
/// minutes: utilization, memory and power of each.
fn gpus() -> Arc<GpuProvider> {
    let scrape = Duration::from_secs(15);
    let mut pipeline = Pipeline::new(Settings {
        policy: Policy {
            scrape_interval: Some(scrape),
            ..Policy::default()
        },
        signals: fields::built_in(),
        metrics: metrics::built_in(),
        exporter: ExporterIdentity::default(),
        prometheus: 1,
    });
    let newest = NOW.secs() / 15 * 15;
    let (hasher, mut batch) = (
        KeyHasher::new(),
        Batch::new(SignalId::GPU_UTIL, Bytes::new()),
    );
    for (signal, name, values) in [
        (SignalId::GPU_UTIL, "DCGM_FI_DEV_GPU_UTIL", [90, 60, 0]),
        (SignalId::FB_USED, "DCGM_FI_DEV_FB_USED", [4000, 2000, 3]),
        (
            SignalId::POWER_USAGE,
            "DCGM_FI_DEV_POWER_USAGE",
            [300, 340, 50],
        ),
    ] {
        let series = values.iter().enumerate().map(|(gpu, value)| {
            let mut labels = serde_json::json!({
                "__name__": name, "UUID": format!("GPU-{gpu}"), "gpu": gpu.to_string(),
                "Hostname": "node-1", "job": "nvidia-dcgm-exporter", "instance": "10.0.0.1:9400",
                "namespace": "gpu-operator", "pod": EXPORTER, "container": "nvidia-dcgm-exporter",
            });
            if gpu < 2 {
                labels["exported_namespace"] = "dynamo-system".into();
                labels["exported_pod"] = "worker-0".into();
            }
            let values: Vec<_> = (0..11)
                .map(|back| serde_json::json!([newest - 15 * (10 - back), value.to_string()]))
                .collect();
            serde_json::json!({"metric": labels, "values": values})
        });
        let result: Vec<_> = series.collect();
        let body = serde_json::json!({"status": "success",
            "data": {"resultType": "matrix", "result": result}});
        let body = Bytes::from(body.to_string());
        decode(signal, &body, &hasher, &mut batch).unwrap();
        pipeline.take(&batch, NOW);
    }
    pipeline.end_round(PrometheusId(0));
    let snapshot = pipeline.publish(&Arc::default(), NOW);
    let provider = GpuProvider::new(snapshot.metrics());
    provider.publish(Arc::new(snapshot));
    Arc::new(provider)
}

async fn serving() -> TestServer {
    let provider = Arc::new(Composite::from(gpus()));
    let api = Api::new(provider, || NOW, Telemetry::new());
    TestServer::start(open(&api)).await
}

/// Sends the requests of the validator, in its order. Returns the power that the external
/// metric has in each requested namespace.
async fn validate(server: &TestServer) -> Vec<Json> {
    let discovery = server.get(V1).await;
    assert_eq!(discovery.status, 200);
    assert_eq!(
        discovery.json()["groupVersion"],
        "custom.metrics.k8s.io/v1beta1"
    );
    assert!(!discovery.json()["resources"].as_array().unwrap().is_empty());
    for metric in POD_METRICS {
        let mut found = 0;
        for namespace in NAMESPACES {
            let path = format!("{V1}/namespaces/{namespace}/pods/*/{metric}");
            let items = server.get(&path).await.json()["items"].take();
            found += items.as_array().map_or(0, Vec::len);
        }
        assert!(found > 0, "{metric}");
    }
    let mut power = Vec::new();
    // The second namespace is that of the validator's HorizontalPodAutoscaler.
    for namespace in ["default", "hpa-test-0a1b2c3d"] {
        let path = format!("{EXT}/namespaces/{namespace}/dcgm_gpu_power_usage");
        let answer = server.get(&path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let items = answer.json()["items"].take();
        assert_eq!(items.as_array().unwrap().len(), 1, "{items}");
        assert_eq!(items[0]["metricName"], "dcgm_gpu_power_usage");
        power.push(items[0]["value"].clone());
    }
    power
}

#[tokio::test]
async fn nvidias_validator_passes() {
    let server = serving().await;
    assert_eq!(validate(&server).await, ["230", "230"]);
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
    assert_eq!(
        one["items"][0]["metricLabels"],
        serde_json::json!({"gpu": "2"})
    );
    let none = server.get(&power("gpu%3D9")).await;
    assert_eq!(status(&none)["code"], 404);
}
