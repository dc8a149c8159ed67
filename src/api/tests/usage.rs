//! Resource metrics over TLS: pods and nodes by `resourceRules`.

use std::future::ready;

use prost::Message;
use serde_json::json;

use super::messages::{PodMetricsList, Unknown};
use super::*;
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::provider::rules::tests::FakeObjects;
use crate::provider::rules::{RuleProvider, RuleStore};
use crate::provider::usage::tests::{inventory, pod, rules, sample};
use crate::provider::{ListedMetrics, ProviderFuture, StoreQuery, UNFETCHED};
use adapter_rules::resource::ResourceRules;
use gpu_metrics::inventory::{Pod, PodPhase};
use prometheus_source::VectorSample;

const METRICS: &str = "/apis/metrics.k8s.io/v1";
const OLDER: &str = "/apis/metrics.k8s.io/v1beta1";

fn cluster(pods: Vec<Pod>, nodes: &[&str]) -> Box<FakeObjects> {
    Box::new(FakeObjects {
        inventory: Arc::new(inventory(pods, nodes)),
        ..FakeObjects::default()
    })
}

/// Returns the same samples for every query.
#[derive(Debug, Default)]
struct Prometheus {
    down: bool,
}

impl RuleStore for Prometheus {
    fn fetch<'a>(
        &'a self,
        ask: &'a StoreQuery,
        _: &'a str,
    ) -> ProviderFuture<'a, Arc<[VectorSample]>> {
        let at = 1_767_323_045_999;
        let values = match ask.promql.contains("cpu") {
            true => [0.25, 2.0, 1.0, 3.5],
            false => [67_108_864.0, 1536.0, 1.0, 8_589_934_592.0],
        };
        let of = ["ns/a/main", "ns/b/main", "other/d/main", "n1"].into_iter();
        let samples = of.zip(values).map(|(of, value)| sample(of, value, at));
        let mut samples: Vec<_> = samples.collect();
        let side = match ask.promql.contains("cpu") {
            true => 0.0005,
            false => 0.0,
        };
        samples.push(sample("ns/a/side", side, at + 9000));
        let answer = match self.down {
            true => Err(UNFETCHED),
            false => Ok(samples.into()),
        };
        Box::pin(ready(answer))
    }
}

/// Pods `a` and `b` of `ns` have data, `c` has none, and `late` does not run yet. Among the
/// nodes, only `n1` has data.
async fn metrics(prometheus: Prometheus) -> TestServer {
    let mut late = pod("ns", "late", &[]);
    late.phase = PodPhase::Pending;
    let pods = vec![
        pod("ns", "a", &[("app", "x")]),
        pod("ns", "b", &[("app", "y")]),
        pod("ns", "c", &[("app", "x")]),
        late,
        pod("other", "d", &[("app", "x")]),
    ];
    let cluster = cluster(pods, &["n1", "n2"]);
    serve(cluster, prometheus, Some(rules())).await
}

async fn serve(
    cluster: Box<FakeObjects>,
    prometheus: Prometheus,
    rules: Option<ResourceRules>,
) -> TestServer {
    let (store, none) = (Box::new(prometheus), ListedMetrics::default());
    let rules = RuleProvider::new(cluster, store, Arc::default(), &none, rules);
    let no_gpus = Arc::new(GpuProvider::new(&[]));
    let provider = Composite::new(Some(Arc::new(rules)), no_gpus, Vec::new());
    let api = Api::new(Arc::new(provider), || NOW, Telemetry::new().unwrap());
    TestServer::start(open(&api)).await
}

fn pod_a() -> Json {
    json!({
        "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "x"},
            "creationTimestamp": "2026-01-02T03:04:20Z"},
        "timestamp": "2026-01-02T03:04:05Z", "window": "1m0s",
        "containers": [
            {"name": "main", "usage": {"cpu": "250m", "memory": "64Mi"}},
            {"name": "side", "usage": {"cpu": "1m", "memory": "0"}},
        ],
    })
}

fn named(answer: &TestResponse) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    let items = body["items"].as_array().unwrap().iter();
    let name = |item: &Json| item["metadata"]["name"].as_str().unwrap().to_owned();
    items.map(name).collect()
}

#[tokio::test]
async fn s116_pods_and_nodes_can_be_listed_and_read() {
    let server = metrics(Prometheus::default()).await;
    let list = server.get(&format!("{METRICS}/namespaces/ns/pods")).await;
    let body = list.json();
    assert_eq!(named(&list), ["a", "b"]);
    assert_eq!(body["kind"], "PodMetricsList");
    assert_eq!(body["apiVersion"], "metrics.k8s.io/v1");
    assert_eq!(body["metadata"], json!({}));
    assert_eq!(body["items"][0], pod_a());
    let mut one = pod_a();
    one["kind"] = "PodMetrics".into();
    one["apiVersion"] = "metrics.k8s.io/v1".into();
    let got = server.get(&format!("{METRICS}/namespaces/ns/pods/a")).await;
    assert_eq!(got.json(), one);
    let all = server.get(&format!("{METRICS}/pods")).await;
    assert_eq!(named(&all), ["a", "b", "d"]);
    let none = server.get(&format!("{METRICS}/namespaces/no/pods")).await;
    assert_eq!(named(&none), Vec::<String>::new());
    let nodes = server.get(&format!("{METRICS}/nodes")).await;
    assert_eq!(nodes.json()["kind"], "NodeMetricsList");
    assert_eq!(
        nodes.json()["items"],
        json!([{
            "metadata": {"name": "n1", "labels": {"zone": "n1"},
                "creationTimestamp": "2026-01-02T03:04:20Z"},
            "timestamp": "2026-01-02T03:04:05Z", "window": "1m0s",
            "usage": {"cpu": "3500m", "memory": "8Gi"},
        }])
    );
    let node = server.get(&format!("{METRICS}/nodes/n1")).await.json();
    assert_eq!(node["kind"], "NodeMetrics");
    assert_eq!(node["usage"]["memory"], "8Gi");
}

#[tokio::test]
async fn both_versions_and_protobuf_have_the_same_content() {
    let server = metrics(Prometheus::default()).await;
    for target in [
        "namespaces/ns/pods",
        "namespaces/ns/pods/a",
        "nodes",
        "nodes/n1",
    ] {
        let newer = server.get(&format!("{METRICS}/{target}")).await.json();
        let mut older = server.get(&format!("{OLDER}/{target}")).await.json();
        assert_eq!(older["apiVersion"], "metrics.k8s.io/v1beta1", "{target}");
        older["apiVersion"] = "metrics.k8s.io/v1".into();
        assert_eq!(newer, older, "{target}");
    }
    let json = server.get(&format!("{METRICS}/pods")).await.json();
    let accept = format!("{PROTOBUF}, */*");
    for (path, version) in [(METRICS, "v1"), (OLDER, "v1beta1")] {
        let path = format!("{path}/pods");
        let answer = server.send("GET", &path, &[("Accept", &accept)]).await;
        assert_eq!(answer.header("content-type"), Some(PROTOBUF));
        let envelope = Unknown::decode(&answer.body[4..]).unwrap();
        let meta = envelope.type_meta.unwrap();
        assert_eq!(meta.api_version, Some(format!("metrics.k8s.io/{version}")));
        assert_eq!(meta.kind.as_deref(), Some("PodMetricsList"));
        let list = PodMetricsList::decode(&envelope.raw.unwrap()[..]).unwrap();
        assert_eq!(serde_json::to_value(list.items).unwrap(), json["items"]);
    }
}

/// A code, a target, and a part of the message.
const REFUSED: &str = r#"
400 pods?labelSelector=%3D%3D unable to parse
400 pods?fieldSelector=status.phase%3DRunning is not a known field selector
405 pods?watch=1 resources of kind "pods.metrics.k8s.io"
405 nodes?watch=1 resources of kind "nodes.metrics.k8s.io"
404 namespaces/ns/pods/c podmetrics.metrics.k8s.io "ns/c" not found
404 namespaces/ns/pods/late no such pod is running
404 nodes/n2 nodemetrics.metrics.k8s.io "n2" not found
404 pods/a could not find the requested resource
404 namespaces/ns/nodes could not find the requested resource
404 namespaces/ns/pods/a/x could not find the requested resource
404 deployments could not find the requested resource
"#;

#[tokio::test]
async fn s117_labels_and_fields_select() {
    let server = metrics(Prometheus::default()).await;
    for (target, wanted) in [
        ("namespaces/ns/pods?labelSelector=app%3Dx", &["a"][..]),
        ("pods?labelSelector=app%3Dx", &["a", "d"]),
        ("pods?fieldSelector=metadata.name%3Db", &["b"]),
        ("pods?fieldSelector=metadata.namespace!%3Dns", &["d"]),
        ("nodes?labelSelector=zone%3Dn2", &[]),
        ("nodes?labelSelector=zone", &["n1"]),
    ] {
        let answer = server.get(&format!("{METRICS}/{target}")).await;
        assert_eq!(named(&answer), wanted, "{target}");
    }
    for row in REFUSED.trim().lines() {
        let mut words = row.splitn(3, ' ');
        let [code, target, words] = [(); 3].map(|()| words.next().unwrap());
        let answer = server.get(&format!("{METRICS}/{target}")).await;
        assert_eq!(answer.status.to_string(), code, "{target}");
        let message = status(&answer)["message"].to_string().replace('\\', "");
        assert!(message.contains(words), "{target}: {message}");
    }
}

#[tokio::test]
async fn s118_a_failing_query_is_a_failure_and_no_empty_list() {
    let server = metrics(Prometheus { down: true }).await;
    for target in ["pods", "nodes", "namespaces/ns/pods/a"] {
        let answer = server.get(&format!("{METRICS}/{target}")).await;
        assert_eq!(answer.status, 500);
        let message = status(&answer)["message"].to_string();
        assert!(message.contains("unable to fetch metrics"), "{message}");
    }
}

/// kubectl prints the names and ages of such a list.
#[tokio::test]
async fn s119_a_request_for_a_table_gets_the_plain_list() {
    let server = metrics(Prometheus::default()).await;
    let table = |version: &str| format!("application/json;as=Table;v={version};g=meta.k8s.io");
    let accept = format!("{},{},application/json", table("v1"), table("v1beta1"));
    let target = format!("{METRICS}/pods");
    let list = server.send("GET", &target, &[("Accept", &accept)]).await;
    assert_eq!(named(&list), ["a", "b", "d"]);
    assert_eq!(list.json()["kind"], "PodMetricsList");
}

#[tokio::test]
async fn s120_the_group_is_in_discovery_with_both_versions() {
    let server = metrics(Prometheus::default()).await;
    let resources = json!([
        {"name": "nodes", "singularName": "", "namespaced": false,
            "kind": "NodeMetrics", "verbs": ["get", "list"]},
        {"name": "pods", "singularName": "", "namespaced": true,
            "kind": "PodMetrics", "verbs": ["get", "list"]},
    ]);
    for path in [METRICS, OLDER] {
        let found = server.get(path).await.json();
        assert_eq!(found["resources"], resources, "{path}");
    }
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let all = server.send("GET", "/apis", &[("Accept", v2)]).await.json();
    let mut groups = all["items"].as_array().unwrap().iter();
    let usage = groups.find(|group| group["metadata"]["name"] == "metrics.k8s.io");
    let versions = usage.unwrap()["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 2);
    for (version, name) in versions.iter().zip(["v1", "v1beta1"]) {
        assert_eq!(version["version"], name);
        let pods = &version["resources"][1];
        assert_eq!(pods["responseKind"]["kind"], "PodMetrics");
        assert_eq!(pods["verbs"], json!(["get", "list"]));
    }
}

#[tokio::test]
async fn s120_the_group_is_served_while_there_are_rules() {
    for (rules, status) in [(None, 404), (Some(rules()), 200)] {
        let is_served = rules.is_some();
        let cluster = cluster(Vec::new(), &["n1"]);
        let server = serve(cluster, Prometheus::default(), rules).await;
        for path in [METRICS, OLDER, &format!("{METRICS}/nodes")] {
            assert_eq!(server.get(path).await.status, status, "{path}");
        }
        let groups = server.get("/apis").await.text();
        assert_eq!(groups.contains("\"metrics.k8s.io"), is_served, "{groups}");
    }
}
