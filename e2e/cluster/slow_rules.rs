//! Requests for a rule's metric while Prometheus is slow with its query: the queries
//! are bounded, GPU metrics are answered, and autoscalers on them scale.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::asking::{Way, identity, identity_of};
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::scaling::{Autoscaler, SYNC, on_pods};
use super::scene::{await_value, reader};
use super::trickle::{Seen, Subject, Trickle, some_values};
use crate::program::eventually;
use crate::stores::proxy::Proxy;

/// A rule that finds series in any Prometheus. No query of it ends within the
/// test, and readings count for longer than the machine may be busy.
const CONFIG: &str = "
gpu: {window: 10s, freshness: 30s}
prometheus: {timeout: 5m}
externalRules:
- seriesQuery: up
  resources: {namespaced: false}
  name: {as: slow_queue}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>})
";

/// What the queries of that rule have in them.
const QUERY: &str = "max(up";

/// `prometheus.maxConcurrentQueries`.
const MOST: usize = 32;

const CANCELLED: usize = 2_000;
const HELD: usize = 400;

/// Requests at a time that are cancelled, and after how long.
const AT_A_TIME: usize = 100;
const CANCELLED_AFTER: Duration = Duration::from_millis(200);

/// The pause of a client after a refused request.
const PAUSE: Duration = Duration::from_secs(1);

/// Autoscalers on the rule's metric: more than the controller has workers.
const BESIDE: usize = 6;

/// The server's memory may end above where it was by so much, which the
/// allocator keeps for the next flood.
const KEPT_KIB: u64 = 32 * 1024;

/// The GPU metric, asked for through kube-apiserver, and on a connection with
/// requests that wait.
const GPUS: [&str; 2] = ["through kube-apiserver", "beside requests that wait"];

const GROUP: &str = "metrics-readers";

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_slow_rule_queries_costs_gpu_metrics_nothing() {
    let mut lab = Lab::start(SYNC).await;
    let proxy = Proxy::before(lab.prometheus.url()).await;
    let reader = reader(&lab);
    lab.deploy(1);
    lab.gpus.work(20);
    // The search for the rule's series finds some at once.
    await_value(&reader, &gpu_metric(), "20").await;
    lab.stand_in = Some(proxy.url());
    lab.reconfigure(CONFIG);
    let lab = lab;
    await_value(&reader, &gpu_metric(), "20").await;
    await_value(&reader, &rule_metric("instance!=1"), "1").await;
    proxy.hold(QUERY);
    let ways: Vec<Way> = (0..4).map(|_| mallory(&lab)).collect();
    let asked = [reader, ways[0].clone()].into_iter().zip(GPUS);
    let trickle = Trickle::start(asked.map(|(way, name)| (way, gpu_subject(name))));
    let scaler = Autoscaler::start(&lab, 4, &on_pods("gpu_memory_utilization", "50"));
    scaler.await_seen("20");
    let server = lab.server.as_ref().unwrap();
    let before = server.resident_kib();

    let flooded = trickle.now();
    cancel(&lab).await;
    await_holding(&proxy, MOST / 2);
    assert_eq!(proxy.holding(), (MOST / 2, MOST / 2));
    let flood = Flood::start(&ways);
    await_holding(&proxy, MOST);

    (0..BESIDE).for_each(|place| autoscale_on_rule(&lab, place));
    let begun = Instant::now();
    lab.gpus.work(90);
    lab.await_replicas(4);
    println!("from load to four replicas: {:.1?}", begun.elapsed());
    eventually("503 for autoscalers on the rule", PATIENCE, || {
        let blind = conditions(&lab, "too many queries of rules are under way");
        (blind == BESIDE).then_some(()).ok_or(blind.to_string())
    });
    let crowded = server.resident_kib();
    assert_unharmed(&lab).await;
    assert_eq!(proxy.holding(), (MOST, MOST));
    let asked = flood.end();
    assert_answered(&trickle, flooded);
    proxy.release();
    await_holding(&proxy, 0);
    let after = eventually("memory that comes back", PATIENCE, || {
        let after = server.resident_kib();
        (after <= before + KEPT_KIB)
            .then_some(after)
            .ok_or(format!("{before}, then {after}"))
    });
    println!("VmRSS {before} KiB before, {crowded} in the flood of {asked}, {after} after it");
    eventually("autoscalers on the rule that see", PATIENCE, || {
        let seeing = conditions(&lab, "successfully calculate");
        (seeing > BESIDE).then_some(()).ok_or(seeing.to_string())
    });
}

/// Waits until so many queries of the rule are under way.
fn await_holding(proxy: &Proxy, wanted: usize) {
    eventually(&format!("{wanted} queries of the rule"), PATIENCE, || {
        let (now, _) = proxy.holding();
        (now == wanted).then_some(()).ok_or(now.to_string())
    });
}

fn gpu_metric() -> String {
    format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/%2A/gpu_memory_utilization?labelSelector=deployment%3D{APP}"
    )
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

/// The GPU metric was there each time; how long that took before the flood and in
/// it.
fn assert_answered(trickle: &Trickle, flooded: Duration) {
    for subject in GPUS {
        let seen = trickle.since(Duration::ZERO, subject);
        let lost = seen.iter().find(|seen| seen.trouble.is_some());
        assert!(lost.is_none(), "{lost:?}");
        let (quiet, flood) = seen.split_at(seen.partition_point(|seen| seen.at < flooded));
        println!("{subject}: {}; in the flood {}", told(quiet), told(flood));
    }
}

/// How many requests there were, and how long they took.
fn told(seen: &[Seen]) -> String {
    let mut took: Vec<Duration> = seen.iter().map(|seen| seen.took).collect();
    took.sort();
    let [half, most] = [50, 99].map(|percent| took[took.len() * percent / 100]);
    format!("{} requests, p50 {half:.1?}, p99 {most:.1?}", took.len())
}

/// A Deployment with a pod, and its autoscaler on a query of its own.
fn autoscale_on_rule(lab: &Lab, place: usize) {
    let name = format!("beside-{place}");
    lab.deploy_as(&name, 1);
    let metric = json!({
        "name": "slow_queue",
        "selector": {"matchExpressions": [{"key": "instance", "operator": "NotIn", "values": [name]}]},
    });
    let target = json!({"type": "Value", "value": "1"});
    lab.plane.apply(&json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1, "maxReplicas": 2,
            "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
        },
    }));
}

/// How many autoscalers have a condition with these words.
fn conditions(lab: &Lab, words: &str) -> usize {
    let said = lab.plane.kubectl(&["get", "hpa", "-n", TEAM, "-o", "json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let all = said["items"].as_array().unwrap().iter();
    all.filter(|hpa| hpa["status"]["conditions"].to_string().contains(words))
        .count()
}

/// Cancels requests of one user through kube-apiserver, each with a query of its
/// own.
async fn cancel(lab: &Lab) {
    let way = Way::of(&lab.plane.user_kubeconfig("eve", &[GROUP]));
    let mut left = 0..CANCELLED;
    while !left.is_empty() {
        let mut requests = JoinSet::new();
        for place in left.by_ref().take(AT_A_TIME) {
            let (way, path) = (way.clone(), rule_metric(&format!("cancelled!={place}")));
            requests.spawn(async move {
                let _ = tokio::time::timeout(CANCELLED_AFTER, way.get(&path)).await;
            });
        }
        requests.join_all().await;
    }
}

/// A user with requests straight from a front proxy, so that no fairness of
/// kube-apiserver stands before them.
fn mallory(lab: &Lab) -> Way {
    let (certificate, key) = lab.plane.front_proxy_client();
    let proxy = identity((&certificate, &key));
    Way::proxied(lab.port, proxy, "mallory", GROUP)
}

/// Requests that are under way all the time: half of them for the same query, the
/// others each for one of its own.
struct Flood {
    asked: Arc<AtomicUsize>,
    requests: JoinSet<()>,
}

impl Flood {
    fn start(ways: &[Way]) -> Self {
        let asked: Arc<AtomicUsize> = Arc::default();
        let mut requests = JoinSet::new();
        for (place, way) in (0..HELD).zip(ways.iter().cycle()) {
            let (way, asked) = (way.clone(), Arc::clone(&asked));
            requests.spawn(async move {
                loop {
                    let own = asked.fetch_add(1, Ordering::Relaxed);
                    let query = if place % 2 == 0 { 0 } else { own };
                    let came = way.get(&rule_metric(&format!("held!={query}"))).await;
                    assert!(matches!(came.code(), Some(503 | 504)), "{came:?}");
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { asked, requests }
    }

    /// How many requests there were.
    fn end(mut self) -> usize {
        // One that has ended had another answer.
        if let Some(ended) = self.requests.try_join_next() {
            ended.unwrap();
        }
        self.asked.load(Ordering::Relaxed)
    }
}

/// The server is ready, and counts what it refuses.
async fn assert_unharmed(lab: &Lab) {
    let admin = Way::straight(lab.port, Some(identity_of(lab.plane.kubeconfig())));
    let ready = admin.get("/readyz?verbose").await;
    assert_eq!(ready.code(), Some(200), "{ready:?}");
    let metrics = format!("{:?}", admin.get("/metrics").await);
    let name = "rule_queries_refused_total{kind=\\\"metric\\\"} ";
    let (_, count) = metrics.split_once(name).unwrap();
    assert!(!count.starts_with("0\\n"), "{metrics}");
}
