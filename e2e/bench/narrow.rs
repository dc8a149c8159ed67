//! Requests with selectors that narrow the devices, whose values the snapshot does not
//! contain.

use std::sync::Arc;

use gpu_metrics_apiserver::api::Api;
use gpu_metrics_apiserver::provider::composite::Composite;
use gpu_metrics_apiserver::provider::gpu::GpuProvider;
use gpu_metrics_apiserver::telemetry::Telemetry;
use http::Request;

use super::fleet::Bench;
use super::{best_of, ms, row, runtime};

const GPUS: u32 = 10_000;

pub(super) fn run() {
    let mut bench = Bench::new(GPUS);
    bench.round();
    let inventory = bench.inventory();
    let now = bench.now;
    let snapshot = Arc::new(bench.pipeline.publish(&inventory, now));
    let (_, pods) = snapshot.layout().table("pods").expect("pods");
    let namespace = pods.objects[0].namespace.clone().expect("a namespace");
    let provider = Arc::new(GpuProvider::new(snapshot.metrics()));
    let served = Arc::new(Composite::from(Arc::clone(&provider)));
    let api = Api::new(served, move || now, Telemetry::new());
    let runtime = runtime();
    let cluster =
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/cluster_gpu_memory_utilization";
    let list = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/%2A/gpu_memory_utilization"
    );
    let absent: Vec<String> = (0..64).map(|key| format!("absent_{key}!=x")).collect();
    let values: Vec<String> = (0..256).map(|value| format!("NVIDIA-H{value}")).collect();
    let cases = [
        (
            "cluster, window only",
            format!("{cluster}?labelSelector=window%3D2m"),
        ),
        (
            "cluster, one label",
            format!("{cluster}?labelSelector=gpu!%3D0"),
        ),
        (
            "cluster, 64 requirements",
            format!(
                "{cluster}?labelSelector={}",
                absent.join(",").replace('=', "%3D")
            ),
        ),
        (
            "cluster, 256 values",
            format!(
                "{cluster}?labelSelector=model%20notin%20({})",
                values.join(",")
            ),
        ),
        (
            "pods of a namespace, one label",
            format!("{list}?metricLabelSelector=gpu!%3D0"),
        ),
    ];
    for (what, path) in cases {
        let request = Request::get(path).body(()).expect("a request");
        let (parts, ()) = request.into_parts();
        let ask = || {
            let response = runtime.block_on(api.handle(&parts));
            assert_eq!(response.status(), 200, "{what}");
        };
        let (first, ()) = best_of(5, || {
            provider.publish(Arc::clone(&snapshot));
            ask();
        });
        let (again, ()) = best_of(5, ask);
        let result = format!("{}; asked again {}", ms(first), ms(again));
        row(
            &format!("answer by selector: {what}"),
            &format!("{GPUS} GPUs"),
            &result,
            "",
        );
    }
}
