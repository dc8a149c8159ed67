//! Requests for a rule's metric while Prometheus is slow with its query. The number of
//! queries is bounded, GPU metrics are answered, and autoscalers on them scale.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::lab::{APP, Lab, PATIENCE, PODS, TEAM};
use super::proxy::Proxy;
use super::scaling::Autoscaler;
use super::scene::{await_value, reader};
use super::trickle::{Subject, Trickle, some_values};
use super::workload::{autoscaler, on_pods};
use crate::asking::{ApiClient, identity, identity_of};
use crate::program::{eventually, found_if, ok_if};

/// A rule that finds series in any Prometheus. None of its queries ends during the test.
/// Readings are valid for longer than the machine may be busy.
const CONFIG: &str = "
gpu: {window: 10s, freshness: 30s}
prometheus: {timeout: 5m}
externalRules:
- seriesQuery: up
  resources: {namespaced: false}
  name: {as: slow_queue}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>})
";

/// A text in the queries of that rule.
const QUERY: &str = "max(up";

/// `prometheus.maxConcurrentQueries`.
const MOST: usize = 32;

const CANCELLED: usize = 2_000;
const HELD: usize = 400;

/// Concurrent requests that are cancelled, and after how long.
const AT_A_TIME: usize = 100;
const CANCELLED_AFTER: Duration = Duration::from_millis(200);

/// The pause of a client after a refused request.
const PAUSE: Duration = Duration::from_secs(1);

/// Autoscalers on the rule's metric, more than the controller has workers.
const BESIDE: usize = 6;

/// How much the server's memory may grow: the allocator keeps it for the next flood.
const KEPT_KIB: u64 = 32 * 1024;

/// The GPU metric, requested through kube-apiserver, and on a connection with waiting
/// requests.
const GPUS: [&str; 2] = ["through kube-apiserver", "beside requests that wait"];

const GROUP: &str = "metrics-readers";

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_slow_rule_queries_does_not_delay_gpu_metrics() {
    let mut lab = Lab::start().await;
    let proxy = Proxy::before(&lab.prometheus.url).await;
    let reader = reader(&lab);
    lab.deploy(1);
    lab.gpus.work(20);
    // The search for the rule's series finds some at once.
    await_value(&reader, &gpu_metric(), "20").await;
    lab.write_config(CONFIG);
    lab.read_from(proxy.url());
    let lab = lab;
    await_value(&reader, &gpu_metric(), "20").await;
    await_value(&reader, &rule_metric("instance!=1"), "1").await;
    proxy.hold(QUERY);
    let api_clients: Vec<ApiClient> = (0..4).map(|_| mallory(&lab)).collect();
    let asked = [reader, api_clients[0].clone()].into_iter().zip(GPUS);
    let trickle = Trickle::start(asked.map(|(api_client, name)| (api_client, gpu_subject(name))));
    let scaler = Autoscaler::start(&lab, 4, &on_pods("gpu_memory_utilization", "50"));
    scaler.await_seen("20");
    let server = lab.server.as_ref().unwrap();
    let before = server.resident_kib();

    cancel(&lab).await;
    await_holding(&proxy, MOST / 2);
    assert_eq!(proxy.holding(), (MOST / 2, MOST / 2));
    let flood = Flood::start(&api_clients);
    await_holding(&proxy, MOST);

    (0..BESIDE).for_each(|place| autoscale_on_rule(&lab, place));
    lab.gpus.work(90);
    lab.await_replicas(4);
    eventually("503 for autoscalers on the rule", PATIENCE, || {
        let blind = conditions(&lab, "too many queries of rules are in flight");
        ok_if(blind == BESIDE, &blind)
    });
    assert_unharmed(&lab).await;
    assert_eq!(proxy.holding(), (MOST, MOST));
    flood.end();
    trickle.assert_answered(Duration::ZERO, &GPUS);
    proxy.release();
    await_holding(&proxy, 0);
    eventually("memory that comes back", PATIENCE, || {
        let resident = server.resident_kib();
        found_if(resident, |after| *after <= before + KEPT_KIB)
    });
    eventually("autoscalers on the rule that see", PATIENCE, || {
        let seeing = conditions(&lab, "successfully calculate");
        ok_if(seeing > BESIDE, &seeing)
    });
}

/// Waits until this many queries of the rule are running.
fn await_holding(proxy: &Proxy, wanted: usize) {
    eventually(&format!("{wanted} queries of the rule"), PATIENCE, || {
        let (now, _) = proxy.holding();
        ok_if(now == wanted, &now)
    });
}

fn gpu_metric() -> String {
    format!("{PODS}?labelSelector=deployment%3D{APP}")
}

fn rule_metric(selector: &str) -> String {
    let selector = selector.replace('=', "%3D");
    format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{TEAM}/slow_queue?labelSelector={selector}"
    )
}

fn gpu_subject(name: &'static str) -> Subject {
    Subject {
        name,
        path: gpu_metric(),
        every: Duration::from_millis(20),
        judge: some_values,
    }
}

/// A Deployment with a pod, and an autoscaler with a separate query.
fn autoscale_on_rule(lab: &Lab, place: usize) {
    let name = format!("beside-{place}");
    lab.deploy_as(&name, 1);
    let metric = json!({
        "name": "slow_queue",
        "selector": {"matchExpressions": [{"key": "instance", "operator": "NotIn", "values": [name]}]},
    });
    let target = json!({"type": "Value", "value": "1"});
    let metrics = json!([{"type": "External", "external": {"metric": metric, "target": target}}]);
    lab.plane
        .apply(&autoscaler((TEAM, &name), &name, 2, &metrics, &Value::Null));
}

/// The number of autoscalers with a condition that contains these words.
fn conditions(lab: &Lab, words: &str) -> usize {
    let said = lab.plane.found(TEAM, "horizontalpodautoscalers");
    let all = said["items"].as_array().unwrap().iter();
    all.filter(|hpa| hpa["status"]["conditions"].to_string().contains(words))
        .count()
}

/// Cancels requests of one user through kube-apiserver; each has a separate query.
async fn cancel(lab: &Lab) {
    let api_client = ApiClient::of(&lab.plane.user_kubeconfig("eve", Some(GROUP)));
    let mut left = 0..CANCELLED;
    while !left.is_empty() {
        let mut requests = JoinSet::new();
        for place in left.by_ref().take(AT_A_TIME) {
            let (api_client, path) = (
                api_client.clone(),
                rule_metric(&format!("cancelled!={place}")),
            );
            requests.spawn(async move {
                let _ = tokio::time::timeout(CANCELLED_AFTER, api_client.get(&path)).await;
            });
        }
        requests.join_all().await;
    }
}

/// A user's requests directly from a front proxy, so that kube-apiserver's fairness
/// does not limit them.
fn mallory(lab: &Lab) -> ApiClient {
    let (certificate, key) = lab.plane.front_proxy_client();
    let proxy = identity((&certificate, &key));
    ApiClient::proxied(lab.port, proxy, "mallory", GROUP)
}

/// Constant concurrent requests: half of them for the same query, the others each for
/// a separate one.
struct Flood(JoinSet<()>);

impl Flood {
    fn start(api_clients: &[ApiClient]) -> Self {
        let asked: Arc<AtomicUsize> = Arc::default();
        let mut requests = JoinSet::new();
        for (place, api_client) in (0..HELD).zip(api_clients.iter().cycle()) {
            let (api_client, asked) = (api_client.clone(), Arc::clone(&asked));
            requests.spawn(async move {
                loop {
                    let own = asked.fetch_add(1, Ordering::Relaxed);
                    let query = if place % 2 == 0 { 0 } else { own };
                    let reply = api_client
                        .get(&rule_metric(&format!("held!={query}")))
                        .await;
                    assert!(matches!(reply.code, 503 | 504), "{reply:?}");
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self(requests)
    }

    fn end(mut self) {
        // A task ends only by a panic about an unexpected answer, which this repeats.
        if let Some(ended) = self.0.try_join_next() {
            ended.unwrap();
        }
    }
}

/// Asserts that the server is ready and counts its refusals.
async fn assert_unharmed(lab: &Lab) {
    let admin = ApiClient::direct(lab.port, Some(identity_of(lab.plane.kubeconfig())));
    let ready = admin.get("/readyz?verbose").await;
    assert_eq!(ready.code, 200, "{ready:?}");
    let metrics = format!("{:?}", admin.get("/metrics").await);
    let name = "rule_queries_refused_total{kind=\\\"metric\\\"} ";
    let (_, count) = metrics.split_once(name).unwrap();
    assert!(!count.starts_with("0\\n"), "{metrics}");
}
