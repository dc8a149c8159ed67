//! Lists of 4 and of 1,000 pods, with selectors that are each used once.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::nginx::Nginx;
use super::wrk::{self, Load};
use super::{CONFIG, THROTTLED, UNTHROTTLED, circumstances, head, pod, process, row};
use super::{series_of, token};
use crate::controlplane::{ControlPlane, Extent};
use crate::e2e::peer::objects::holding;
use crate::e2e::peer::pair::{Scene, Side};
use crate::program::{eventually, ok_if};

/// The number of all pods, and of those that the selector of short lists matches.
const PODS: usize = 1_000;
const FEW: usize = 4;

const NAMESPACE: &str = "crowd";

const RULE: &str = "busy";
const GPU: &str = "gpu_memory_utilization";

/// Seconds for which one row of the table is measured, after one second that is not
/// measured.
const SECONDS: u32 = 4;

const PATIENCE: Duration = Duration::from_secs(180);

fn create(plane: &ControlPlane) {
    plane.kubectl(&["create", "namespace", NAMESPACE]);
    let pod = |number| {
        let size = if number < FEW { "few" } else { "many" };
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name(number), "namespace": NAMESPACE,
                "labels": {"size": size, "app": "x"},
            },
            "spec": pod(),
        })
    };
    let items: Vec<Value> = (0..PODS).map(pod).collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    eventually("pods that run", PATIENCE, || {
        let count = plane.pods(NAMESPACE).len();
        ok_if(count == PODS, &count)
    });
}

fn name(number: usize) -> String {
    format!("pod-{number:04}")
}

fn path(metric: &str, pods: usize) -> String {
    let selector = if pods == FEW { "size%3Dfew" } else { "app%3Dx" };
    let all = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/crowd/pods/*";
    format!("{all}/{metric}?labelSelector={selector}")
}

/// Sends loads; the numbers in their selectors continue from one load to the next.
struct Bench {
    token: String,
    next: u64,
}

impl Bench {
    fn load(&mut self, port: u16, path: &str, (connections, seconds): (u32, u32)) -> Load {
        self.next += 10_000_000;
        wrk::load(port, path, &self.token, (connections, seconds), self.next)
    }

    /// The rows of a server: one for each number of pods and connections.
    fn rows(&mut self, name: &str, id: u32, port: u16, path: impl Fn(usize) -> String) {
        for (pods, connections) in [(FEW, 1), (FEW, 8), (PODS, 1), (PODS, 8)] {
            let path = path(pods);
            self.load(port, &path, (connections, 1));
            let before = process::cpu(id);
            let load = self.load(port, &path, (connections, SECONDS));
            let used = process::cpu(id).saturating_sub(before).as_secs_f64();
            assert!(load.requests > 0, "{name}: nothing in {SECONDS} s");
            row([
                name,
                &pods.to_string(),
                &connections.to_string(),
                &format!("{:.2} ms", load.p50),
                &format!("{:.2} ms", load.p99),
                &format!("{:.1}", load.per_second),
                &format!("{:.3} ms", used * 1e3 / load.requests as f64),
                &load.requests.to_string(),
            ]);
        }
    }

    fn side(&mut self, name: &str, side: &Side, metric: &str) {
        self.rows(name, side.program.id(), side.port(), |pods| {
            path(metric, pods)
        });
        println!(
            "<!-- {name}: at most {} MiB -->",
            process::peak_mib(side.program.id())
        );
    }
}

/// Checks that the answers are complete, and returns them.
async fn bodies(side: &Side, metric: &str) -> Vec<(String, String)> {
    let mut bodies = Vec::new();
    for pods in [FEW, PODS] {
        let path = path(metric, pods);
        side.await_answer(&path, |said| {
            let list: Value = serde_json::from_str(said).unwrap();
            list["items"].as_array().map(Vec::len) == Some(pods)
        })
        .await;
        let came = side.ask(&Method::GET, &path).await;
        bodies.push((pods.to_string(), came.body));
    }
    bodies
}

pub(super) async fn run() {
    let plane = ControlPlane::start(Extent::Cluster {
        autoscaler_sync: Duration::from_secs(15),
    });
    create(&plane);
    let names: Vec<String> = (0..PODS).map(name).collect();
    let names = names.iter().map(String::as_str);
    let prometheus = holding(&series_of(NAMESPACE, names)).await;
    let scene = Scene {
        plane: &plane,
        prometheus: &prometheus,
    };
    let mut bench = Bench {
        token: token(&plane),
        next: 0,
    };
    circumstances();
    head(&[
        "server",
        "pods",
        "connections",
        "p50",
        "p99",
        "a second",
        "CPU of one",
        "answers",
    ]);
    for (name, flags) in [
        ("prometheus-adapter", THROTTLED),
        ("prometheus-adapter, unthrottled", UNTHROTTLED),
    ] {
        let side = scene.theirs_with(CONFIG, flags).await.unwrap();
        bodies(&side, RULE).await;
        bench.side(name, &side, RULE);
    }
    let side = scene
        .ours_with_gpus(CONFIG, &["--rule-max-age=0"])
        .await
        .unwrap();
    bodies(&side, RULE).await;
    bench.side("this server, a rule, --rule-max-age=0", &side, RULE);
    drop(side);
    let side = scene
        .ours_with_gpus(CONFIG, &["--rule-max-age=5s"])
        .await
        .unwrap();
    bodies(&side, RULE).await;
    bench.side("this server, a rule", &side, RULE);
    let made = bodies(&side, GPU).await;
    bench.side("this server, a GPU metric", &side, GPU);
    drop(side);
    let nginx = Nginx::start(&made);
    bench.rows("nginx, the same bytes", nginx.id(), nginx.port, |pods| {
        format!("/{pods}?labelSelector=x")
    });
}
