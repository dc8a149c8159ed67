//! How fast both answer, in one run: `make bench-peer`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::objects::holding;
use super::pair::{Scene, Side};
use crate::controlplane::{ControlPlane, Extent};

/// Pods, and those of them that a selector finds.
const PODS: usize = 1_000;
const FEW: usize = 4;

/// Requests that are measured, one after the other, and those before them.
const REQUESTS: usize = 50;
const FIRST: usize = 5;

const CONFIG: &str = "\
rules:
- seriesQuery: 'busy{namespace!=\"\",pod!=\"\"}'
  resources: {template: <<.Resource>>}
  metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
";

const PATH: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/crowd/pods/*/busy";

fn create(plane: &ControlPlane) {
    plane.kubectl(&["create", "namespace", "crowd"]);
    let pod = |number| {
        let size = if number < FEW { "few" } else { "many" };
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("pod-{number:04}"), "namespace": "crowd",
                "labels": {"size": size},
            },
            "spec": {"containers": [{"name": "app", "image": "nobody.invalid/app"}]},
        })
    };
    let items: Vec<Value> = (0..PODS).map(pod).collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
}

fn series() -> String {
    let mut series = String::new();
    for number in 0..PODS {
        let percent = number % 100;
        let _ = writeln!(
            series,
            "busy{{namespace=\"crowd\",pod=\"pod-{number:04}\"}} {percent}"
        );
    }
    series
}

/// The times of some requests, in order, after a look at the answer.
async fn timed(side: &Side, query: &str, items: usize) -> Vec<Duration> {
    let path = format!("{PATH}{query}");
    let mut times = Vec::new();
    for round in 0..FIRST + REQUESTS {
        let begun = Instant::now();
        let came = side.ask(&Method::GET, &path).await;
        let took = begun.elapsed();
        if round == 0 {
            let list: Value = serde_json::from_str(&came.body).unwrap();
            let found = list["items"].as_array().map(Vec::len);
            assert_eq!(found, Some(items), "{}", came.body);
        }
        if round >= FIRST {
            times.push(took);
        }
    }
    times.sort();
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_few_and_of_many_pods() {
    let plane = ControlPlane::start(Extent::Api);
    create(&plane);
    let prometheus = holding(&series()).await;
    let scene = Scene {
        plane: &plane,
        prometheus: &prometheus,
    };
    println!("| server | pods | p50 | p90 |\n|---|---|---|---|");
    for (name, side) in [
        (
            "prometheus-adapter, --client-qps=100000",
            scene.theirs(CONFIG).await,
        ),
        ("this server, --rule-max-age=0", scene.ours(CONFIG).await),
        (
            "this server",
            scene.ours_with(CONFIG, "--rule-max-age=5s").await,
        ),
    ] {
        let side = side.unwrap();
        for (query, pods) in [("?labelSelector=size%3Dfew", FEW), ("", PODS)] {
            let times = timed(&side, query, pods).await;
            let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
            println!("| {name} | {pods} | {:.2} ms | {:.2} ms |", at(50), at(90));
        }
    }
}
