//! 500 autoscalers of 500 Deployments, evaluated by the real controller.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{CONFIG, THROTTLED, UNTHROTTLED, circumstances, head, process, row, series_of};
use crate::controlplane::authority::{authority, serving};
use crate::controlplane::{ControlPlane, Extent};
use crate::e2e::cluster::workload::{autoscaler, deployment, on_pods};
use crate::e2e::peer::objects::holding;
use crate::e2e::peer::pair::{Scene, Side};
use crate::program::{eventually, ok_if};
use crate::prometheus::Store;

const AUTOSCALERS: usize = 500;
const SYNC: Duration = Duration::from_secs(15);

/// The time before and during the measurement; it includes two syncs of each autoscaler.
const BEFORE: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(30);

const NAMESPACE: &str = "crowd";
const GROUP: &str = "custom.metrics.k8s.io";

const PATIENCE: Duration = Duration::from_secs(240);

fn name(number: usize) -> String {
    format!("app-{number:03}")
}

fn deploy(plane: &ControlPlane) {
    plane.kubectl(&["create", "namespace", NAMESPACE]);
    let limits = json!({"nvidia.com/gpu": 1});
    let items = (0..AUTOSCALERS).map(|number| {
        let labels = json!({"app": name(number)});
        deployment((NAMESPACE, &name(number)), 1, &labels, &limits)
    });
    let items: Vec<Value> = items.collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    eventually("pods that run", PATIENCE, || {
        let count = plane.pods(NAMESPACE).len();
        ok_if(count == AUTOSCALERS, &count)
    });
}

/// The autoscalers never scale, so the load is constant.
fn autoscale(plane: &ControlPlane, metric: &str) {
    let metrics = json!([on_pods(metric, "1k")]);
    let items = (0..AUTOSCALERS).map(|number| {
        let name = name(number);
        autoscaler((NAMESPACE, &name), &name, 2, &metrics, &Value::Null)
    });
    let items: Vec<Value> = items.collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
}

/// The sum of a counter's series with all of these labels.
fn count(metrics: &str, name: &str, labels: &[&str]) -> u64 {
    lines(metrics, name, labels)
        .map(|(_, value)| value as u64)
        .sum()
}

fn lines<'m>(
    metrics: &'m str,
    name: &'m str,
    labels: &'m [&'m str],
) -> impl Iterator<Item = (&'m str, f64)> {
    metrics.lines().filter_map(move |line| {
        let (series, value) = line.rsplit_once(' ')?;
        let rest = series.strip_prefix(name)?;
        let is_it = rest.starts_with('{') && labels.iter().all(|label| rest.contains(label));
        is_it.then(|| Some((series, value.parse().ok()?)))?
    })
}

/// The counters at a time.
struct Reading {
    metrics: String,
    kubernetes: String,
    prometheus: String,
    cpu: Vec<Duration>,
}

/// A server's histogram of requests, and the labels of its series for lists of pods.
/// Requests for discovery are left out, because they are constant.
#[derive(Clone, Copy)]
struct Histogram {
    name: &'static str,
    of_lists: [&'static str; 2],
}

const THEIRS: Histogram = Histogram {
    name: "apiserver_request_duration_seconds",
    of_lists: [r#"group="custom.metrics.k8s.io""#, r#"subresource="*""#],
};
const OURS: Histogram = Histogram {
    name: "gpu_metrics_apiserver_request_duration_seconds",
    of_lists: [r#"group="custom.metrics.k8s.io""#, r#"resource="pods""#],
};

/// The sources of the measurement.
struct Watch<'a> {
    scene: Scene<'a>,
    side: &'a Side,
    histogram: Histogram,
    /// The server, Prometheus, kube-apiserver, kube-controller-manager.
    processes: [u32; 4],
}

impl Watch<'_> {
    async fn read(&self) -> Reading {
        let of_prometheus = reqwest::get(format!("{}/metrics", self.scene.prometheus.url));
        Reading {
            metrics: self.side.ask(&Method::GET, "/metrics").await.body,
            kubernetes: self.scene.plane.kubectl(&["get", "--raw", "/metrics"]),
            prometheus: of_prometheus.await.unwrap().text().await.unwrap(),
            cpu: self.processes.map(process::cpu).to_vec(),
        }
    }

    fn row(&self, name: &str, before: &Reading, after: &Reading) {
        let grown = |of: fn(&Reading) -> &str, name: &str, labels: &[&str]| {
            count(of(after), name, labels).saturating_sub(count(of(before), name, labels))
        };
        let own: fn(&Reading) -> &str = |it| &it.metrics;
        let kubernetes: fn(&Reading) -> &str = |it| &it.kubernetes;
        let asked: fn(&Reading) -> &str = |it| &it.prometheus;
        let of_pods = self.histogram.of_lists;
        let buckets = format!("{}_bucket", self.histogram.name);
        let requests = grown(own, &format!("{}_count", self.histogram.name), &of_pods);
        let within = |share: f64| {
            let mut bounds: Vec<f64> = lines(&after.metrics, &buckets, &of_pods)
                .filter_map(|(series, _)| bound(series))
                .collect();
            bounds.sort_by(f64::total_cmp);
            bounds.dedup();
            let least = bounds.into_iter().find(|&limit| {
                let below = |reading: &Reading| -> f64 {
                    let all = lines(&reading.metrics, &buckets, &of_pods);
                    let of_bound = all.filter(|(series, _)| bound(series) == Some(limit));
                    of_bound.map(|(_, value)| value).sum()
                };
                below(after) - below(before) >= share * requests as f64
            });
            least.map_or("more".to_owned(), |it| format!("≤ {} ms", it * 1e3))
        };
        let request = "apiserver_request_total";
        let reviews = ["tokenreviews", "subjectaccessreviews"]
            .map(|resource| grown(kubernetes, request, &[&format!("resource=\"{resource}\"")]));
        let queries = "prometheus_http_requests_total";
        let handler = "handler=\"/api/v1/query";
        let mut cells = vec![
            name.to_owned(),
            requests.to_string(),
            within(0.5),
            within(0.99),
            grown(asked, queries, &[handler]).to_string(),
            grown(kubernetes, request, &["resource=\"pods\"", "verb=\"LIST\""]).to_string(),
            reviews.iter().sum::<u64>().to_string(),
        ];
        for (place, id) in self.processes.iter().enumerate() {
            let used = (after.cpu[place] - before.cpu[place]).as_secs_f64();
            cells.push(format!("{used:.1} s, {} MiB", process::peak_mib(*id)));
        }
        row(cells);
    }
}

/// The upper bound of a bucket, in seconds.
fn bound(series: &str) -> Option<f64> {
    let (_, rest) = series.split_once("le=\"")?;
    rest.split_once('"')?.0.parse().ok()
}

/// A process of the control plane.
fn part(plane: &ControlPlane, name: &str) -> u32 {
    let file = plane.dir().join("pids").join(name);
    std::fs::read_to_string(file)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// A server to measure, and its requests.
struct Case {
    name: &'static str,
    side: Side,
    histogram: Histogram,
    metric: &'static str,
}

async fn measured(case: &Case, scene: Scene<'_>, engine: &Store) {
    let plane = scene.plane;
    autoscale(plane, case.metric);
    let path = format!(
        "/apis/{GROUP}/v1beta2/namespaces/{NAMESPACE}/pods/*/{}",
        case.metric
    );
    eventually("values by way of kube-apiserver", PATIENCE, || {
        let said = plane.kubectl_as(plane.kubeconfig(), &["get", "--raw", &path])?;
        let list: Value = serde_json::from_str(&said).unwrap();
        let count = list["items"].as_array().map_or(0, Vec::len);
        ok_if(count == AUTOSCALERS, &said)
    });
    let watch = Watch {
        scene,
        side: &case.side,
        histogram: case.histogram,
        processes: [
            case.side.program.id(),
            engine.processes[0].id(),
            part(plane, "kube-apiserver"),
            part(plane, "kube-controller-manager"),
        ],
    };
    tokio::time::sleep(BEFORE).await;
    let (begun, before) = (Instant::now(), watch.read().await);
    tokio::time::sleep(MEASURED.saturating_sub(begun.elapsed())).await;
    let after = watch.read().await;
    watch.row(case.name, &before, &after);
}

pub(super) async fn run() {
    let plane = ControlPlane::start(Extent::Cluster {
        autoscaler_sync: SYNC,
    });
    deploy(&plane);
    let pods = plane.pods(NAMESPACE);
    let prometheus = holding(&series_of(NAMESPACE, pods.iter().map(String::as_str))).await;
    let scene = Scene {
        plane: &plane,
        prometheus: &prometheus,
    };
    let authority = authority("bench");
    let identity = serving(&authority, &["bench.bench.svc", "localhost"]);
    // Both servers use a key pair of this name in --cert-dir.
    let dir = plane.dir().join("serving");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("apiserver.crt"), identity.cert.pem()).unwrap();
    std::fs::write(
        dir.join("apiserver.key"),
        identity.signing_key.serialize_pem(),
    )
    .unwrap();
    let certificate = format!("--cert-dir={}", dir.display());
    let certificate = [certificate.as_str()];
    circumstances();
    head(&[
        "server",
        "requests",
        "p50",
        "p99",
        "queries",
        "lists",
        "reviews",
        "server itself",
        "Prometheus",
        "kube-apiserver",
        "kube-controller-manager",
    ]);
    for (name, metric) in [
        ("prometheus-adapter", "busy"),
        ("prometheus-adapter, unthrottled", "busy"),
        ("this server, a rule", "busy"),
        ("this server, a GPU metric", "gpu_memory_utilization"),
    ] {
        let (side, histogram) = if name.starts_with("prom") {
            let throttle = if name.ends_with("unthrottled") {
                UNTHROTTLED
            } else {
                THROTTLED
            };
            let side = scene
                .theirs_with(CONFIG, &[&certificate, throttle].concat())
                .await;
            (side, THEIRS)
        } else {
            let side = scene.ours_with_gpus(CONFIG, &certificate).await;
            (side, OURS)
        };
        let case = Case {
            name,
            side: side.unwrap(),
            histogram,
            metric,
        };
        register(&plane, case.side.port(), &authority.certificate_pem());
        measured(&case, scene, &prometheus).await;
    }
}

/// Directs the group to a server on this machine, with the authority of its certificate.
pub(super) fn register(plane: &ControlPlane, port: u16, authority: &str) {
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"},
    }));
    let bundle = json!(k8s_openapi::ByteString(authority.as_bytes().to_vec()));
    let names = ["v1beta2", "v1beta1"].map(|version| format!("{version}.{GROUP}"));
    let names = names.each_ref().map(String::as_str);
    plane.register(&names, ("bench", "bench"), port, &bundle);
}
