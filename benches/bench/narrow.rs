//! Requests with selectors that narrow the devices, whose values the snapshot does not
//! contain.

use std::sync::Arc;

use http::Request;

use super::answer::Served;
use super::fleet::Bench;
use super::{best_of, ms, row};

const GPUS: u32 = 10_000;

pub(super) fn run() {
    let mut bench = Bench::new(GPUS);
    bench.round();
    let inventory = bench.inventory();
    let snapshot = bench.pipeline.publish(&inventory, bench.now);
    let served = Served::new(snapshot.clone(), bench.now);
    let snapshot = Arc::new(snapshot);
    let namespace = &served.namespace;
    let cluster =
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/cluster_gpu_memory_utilization";
    let list = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/%2A/gpu_memory_utilization"
    );
    let absent: Vec<String> = (0..64).map(|key| format!("absent_{key}!=x")).collect();
    let values: Vec<String> = (0..256).map(|value| format!("NVIDIA-H{value}")).collect();
    let absent = absent.join(",").replace('=', "%3D");
    let absent = format!("labelSelector={absent}");
    let values = format!("labelSelector=model%20notin%20({})", values.join(","));
    let other = "metricLabelSelector=gpu!%3D0";
    for (what, path, query) in [
        ("cluster, window only", cluster, "labelSelector=window%3D2m"),
        ("cluster, one label", cluster, "labelSelector=gpu!%3D0"),
        ("cluster, 64 requirements", cluster, &absent),
        ("cluster, 256 values", cluster, &values),
        ("pods of a namespace, one label", &list, other),
    ] {
        let path = format!("{path}?{query}");
        let request = Request::get(path).body(()).expect("a request");
        let (parts, ()) = request.into_parts();
        let ask = || {
            let response = served.ask(&parts);
            assert_eq!(response.status(), 200, "{what}");
        };
        let (first, ()) = best_of(5, || {
            served.provider.publish(Arc::clone(&snapshot));
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
