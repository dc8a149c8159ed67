//! `explain hpa --last` beside a real kube-controller-manager: its rescales are explained from
//! what a Prometheus scraped of its objects. The text for Prometheus has the names and labels of
//! kube-state-metrics (docs/metrics/workload of kubernetes/kube-state-metrics).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use apimachinery::quantity::parse_milli;
use apimachinery::time::Timestamp;
use bytes::Bytes;
use cluster_state::clock;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::lab::{PATIENCE, TEAM};
use super::workload::{autoscaler, behavior, deployment, external, on_pods, target};
use crate::asking::ApiClient;
use crate::controller::metrics::{body, no_resources, question, serve};
use crate::controller::register;
use crate::controlplane::{ControlPlane, Extent};
use crate::program::{Program, eventually, ok_if, output};
use crate::prometheus::Storage;
use crate::stub::Stub;

/// The values of metrics from now on, and all that were served with their times.
#[derive(Debug, Default)]
struct Load {
    now: BTreeMap<String, f64>,
    served: Vec<(Timestamp, String, f64)>,
}

/// Each running pod has the value of the metric.
async fn respond(
    api: ApiClient,
    load: Arc<Mutex<Load>>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().to_string();
    let Some([group, namespace, metric]) = question(&path) else {
        return no_resources();
    };
    let value = {
        let mut load = load.lock().unwrap();
        let Some(value) = load.now.get(metric).copied() else {
            return no_resources();
        };
        load.served.push((clock::now(), metric.to_owned(), value));
        value.to_string()
    };
    let pods = "/api/v1/namespaces/team/pods?labelSelector=app%3Dsteep&fieldSelector=status.phase%3DRunning";
    let pods = objects(&api, pods).await;
    let pods = pods
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
    let answer = match group {
        "custom.metrics.k8s.io" => {
            json!({"pods": pods.map(|pod| (pod, json!(value))).collect::<serde_json::Map<_, _>>()})
        }
        _ => json!({"values": [value]}),
    };
    body(group, (namespace, metric), &answer)
}

async fn objects(api: &ApiClient, path: &str) -> Vec<Value> {
    let reply = api.get(path).await;
    let list: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// The name of a number, and its path in the object.
type Number = (&'static str, &'static str);

/// The numbers of objects that kube-state-metrics exposes, by the kind.
const NUMBERS: [(&str, &str, &[Number]); 2] = [
    (
        "/apis/apps/v1/namespaces/team/deployments",
        "deployment",
        &[
            ("spec_replicas", "/spec/replicas"),
            ("status_replicas_ready", "/status/readyReplicas"),
        ],
    ),
    (
        "/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers",
        "horizontalpodautoscaler",
        &[
            ("spec_min_replicas", "/spec/minReplicas"),
            ("spec_max_replicas", "/spec/maxReplicas"),
            ("status_current_replicas", "/status/currentReplicas"),
            ("status_desired_replicas", "/status/desiredReplicas"),
        ],
    ),
];

/// What kube-state-metrics exposes of the objects now.
async fn exposed(api: ApiClient) -> Response<Full<Bytes>> {
    let mut out = String::new();
    for (path, kind, numbers) in NUMBERS {
        for object in objects(&api, path).await {
            let mut line = |name: &str, labels: &str, value: f64| {
                let of = format!("namespace=\"{TEAM}\",{kind}={}", object["metadata"]["name"]);
                writeln!(out, "kube_{kind}_{name}{{{of}{labels}}} {value}").unwrap();
            };
            for (name, path) in numbers {
                let number = object.pointer(path).and_then(Value::as_f64);
                line(name, "", number.unwrap_or(0.0));
            }
            if kind == "horizontalpodautoscaler" {
                status(&object, line);
            }
        }
    }
    Response::new(Full::from(out))
}

/// The conditions, targets and values of an autoscaler.
fn status(hpa: &Value, mut line: impl FnMut(&str, &str, f64)) {
    let list = |path: &str| {
        hpa.pointer(path)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    for condition in list("/status/conditions") {
        for status in ["True", "False", "Unknown"] {
            let (kind, is) = (&condition["type"], condition["status"] == status);
            let labels = format!(",condition={kind},status=\"{}\"", status.to_lowercase());
            line("status_condition", &labels, f64::from(u8::from(is)));
        }
    }
    for (name, path, field) in [
        ("spec_target_metric", "/spec/metrics", "target"),
        ("status_target_metric", "/status/currentMetrics", "current"),
    ] {
        for metric in list(path) {
            let metric = &metric[metric["type"].as_str().unwrap().to_lowercase()];
            for (form, key) in [("value", "value"), ("average", "averageValue")] {
                if let Some(milli) = metric[field][key].as_str().and_then(parse_milli) {
                    let name_of = &metric["metric"]["name"];
                    let labels = format!(",metric_name={name_of},metric_target_type=\"{form}\"");
                    line(name, &labels, milli as f64 / 1000.0);
                }
            }
        }
    }
}

/// Size and reason of each rescale, as the controller's events say.
fn events(plane: &ControlPlane, hpa: &str) -> Vec<(f64, String)> {
    let mut said = plane.found(TEAM, "events");
    let events = said["items"].as_array_mut().unwrap();
    // The name ends with the time in hexadecimal nanoseconds.
    events.sort_by_key(|event| event["metadata"]["name"].to_string());
    let ours = events.iter().filter(|event| {
        event["involvedObject"]["name"] == hpa && event["reason"] == "SuccessfulRescale"
    });
    let sizes = ours.map(|event| {
        let message = event["message"].as_str().unwrap();
        let (size, reason) = message.split_once("; reason: ").unwrap();
        let size = size.strip_prefix("New size: ").unwrap();
        (size.parse().unwrap(), reason.to_owned())
    });
    sizes.collect()
}

/// Two autoscalers: one of two metrics without limits of the rate, and one with a policy.
fn scale(plane: &ControlPlane) {
    plane.kubectl(&["create", "namespace", TEAM]);
    for name in ["steep", "slow"] {
        let labels = json!({"app": name});
        plane.apply(&deployment((TEAM, name), 1, &labels, &json!({})));
    }
    let average = target("AverageValue", "10");
    let metrics = json!([on_pods("busy", "50"), external("queue", &average)]);
    let free = behavior(std::time::Duration::ZERO);
    plane.apply(&autoscaler((TEAM, "steep"), "steep", 8, &metrics, &free));
    let rules = json!({
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 6}],
    });
    let one_by_one = json!({"scaleUp": rules, "scaleDown": rules});
    let metrics = json!([external("backlog", &average)]);
    plane.apply(&autoscaler(
        (TEAM, "slow"),
        "slow",
        8,
        &metrics,
        &one_by_one,
    ));
}

/// The rescales of an autoscaler, as the command explains them.
fn rows(plane: &ControlPlane, store: &str, hpa: &str) -> Result<Vec<Value>, String> {
    let mut command = Program::plugin(["explain", "hpa", &format!("{TEAM}/{hpa}")]);
    command.args(["--last", "1h", "-o", "json", "--prometheus-url", store]);
    let said = output(command.arg("--kubeconfig").arg(plane.kubeconfig()))?;
    let said: Value = serde_json::from_str(&said).unwrap();
    let blocks = said["blocks"].as_array().unwrap();
    let table = blocks.iter().find(|block| block["kind"] == "table");
    let rows = table.and_then(|table| table["rows"].as_array());
    rows.cloned().ok_or_else(|| said.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn rescales_of_a_real_controller_are_explained_from_prometheus_alone() {
    let plane = ControlPlane::start(Extent::CLUSTER);
    let api = ApiClient::of(plane.kubeconfig());
    let load = Arc::new(Mutex::new(Load::default()));
    let set = |metric: &str, value: f64| {
        load.lock().unwrap().now.insert(metric.to_owned(), value);
    };
    for (metric, value) in [("busy", 10.0), ("queue", 5.0), ("backlog", 10.0)] {
        set(metric, value);
    }
    let (ours, shared) = (api.clone(), Arc::clone(&load));
    let served = serve(move |request| respond(ours.clone(), Arc::clone(&shared), request)).await;
    register(&plane, &api, served).await;
    let exporter = Stub::start(move |_| exposed(api.clone())).await;
    let scraped = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
         scrape_configs:\n- job_name: kube-state-metrics\n  static_configs:\n  \
         - {{targets: [\"{}\"], labels: {{namespace: monitoring}}}}\n",
        exporter.address
    );
    let store = Storage::new().start(&scraped).await;
    scale(&plane);
    let await_replicas = |name: &str, wanted: u64| {
        eventually(&format!("{wanted} replicas of {name}"), PATIENCE, || {
            let deployment = format!("deployments/{name}");
            let found = plane.found(TEAM, &deployment)["spec"]["replicas"].take();
            ok_if(found == json!(wanted), &found)
        });
    };
    for hpa in ["steep", "slow"] {
        eventually("a first scrape", PATIENCE, || rows(&plane, &store.url, hpa));
    }
    set("backlog", 40.0);
    await_replicas("slow", 2);
    for (metric, value, replicas) in [
        ("busy", 90.0, 8),
        ("busy", 10.0, 1),
        ("queue", 30.0, 3),
        ("queue", 200.0, 8),
        ("queue", 30.0, 3),
    ] {
        set(metric, value);
        await_replicas("steep", replicas);
    }
    await_replicas("slow", 4);
    set("backlog", 20.0);
    await_replicas("slow", 2);
    let served = load.lock().unwrap().served.clone();
    let mut known = 0;
    for hpa in ["steep", "slow"] {
        let events = events(&plane, hpa);
        // The last sample may not be scraped yet.
        let rows = eventually("all rescales", PATIENCE, || {
            let rows = rows(&plane, &store.url, hpa)?;
            ok_if(rows.len() == events.len(), &rows).map(|()| rows)
        });
        for (row, (size, reason)) in rows.iter().zip(&events) {
            println!("{reason}: {row}");
            assert_eq!(row["to"], *size, "{row} {reason}");
            let Some(metric) = row["metric"].as_str() else {
                continue;
            };
            // Where replicas are removed, the controller names no metric.
            assert!(
                reason.contains(metric) || reason.starts_with("All"),
                "{row} {reason}"
            );
            let at = Timestamp::from_date(row["time"].as_str().unwrap()).unwrap();
            let share = if metric == "busy" {
                1.0
            } else {
                row["from"].as_f64().unwrap()
            };
            let value = row["value"].as_f64().unwrap() * share;
            let is_it = |(time, name, served): &&(Timestamp, String, f64)| {
                name == metric
                    && (at.secs() - 5..=at.secs() + 1).contains(&time.secs())
                    && (value - served).abs() <= served * 0.05
            };
            assert!(served.iter().any(|it| is_it(&it)), "{row}: {value}");
            known += 1;
        }
        let held = rows.iter().map(|row| row["held"].to_string());
        let held: Vec<String> = held.collect();
        let expected = if hpa == "slow" {
            "ScaleUpLimit"
        } else {
            "TooManyReplicas"
        };
        assert!(held.iter().any(|it| it.contains(expected)), "{held:?}");
    }
    assert!(known >= 10, "{known}");
}
