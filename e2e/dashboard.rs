//! Every query of the dashboard, on a Prometheus that scrapes the exporters and the
//! server. The test writes the series of kube-state-metrics.

use serde_json::Value;

use crate::exporters::{Exporters, SCRAPED};
use crate::program::{found_if, in_time};
use crate::prometheus::{Storage, Store};
use crate::served::unix_seconds;
use crate::stores::scene::{PATIENCE, Reader};

const DASHBOARD: &str = include_str!("../dashboards/gpu-metrics-apiserver.json");

/// Device, namespace, pod, percent. The eighth device is not held.
const HOLDERS: [(usize, &str, &str, f64); 7] = [
    (0, "team-a", "train-0", 40.0),
    (1, "team-a", "train-0", 60.0),
    (2, "team-a", "idle-0", 0.0),
    (3, "team-b", "serve-0", 20.0),
    (4, "team-b", "batch-0", 30.0),
    (5, "team-b", "batch-0", 0.0),
    (6, "team-a", "far-0", 80.0),
];

/// Two nodes of four GPUs.
async fn exporters() -> Exporters {
    let exporters = Exporters::start(2, 4, SCRAPED).await;
    let controls = &exporters.controls;
    for (device, namespace, pod, percent) in HOLDERS {
        controls.reassign(device, namespace, pod);
        controls.force_value(device, percent);
    }
    controls.release(HOLDERS.len());
    controls.force_value(HOLDERS.len(), 0.0);
    exporters
}

/// An autoscaler, and the owners of the scene's pods, as series of kube-state-metrics.
fn cluster_state() -> String {
    // Older than the scraped samples: a Prometheus rejects samples that are older than its
    // blocks.
    let at = unix_seconds() - 5.0;
    let lines = include_str!("dashboard.txt").lines();
    let lines = lines.map(|line| format!("{line} {at:.0}\n"));
    lines.chain(["# EOF\n".to_owned()]).collect()
}

/// A Prometheus of the cluster.
async fn monitoring(exporters: &Exporters, server: &Reader) -> Store {
    let storage = Storage::new();
    let state = storage.path("state.om");
    std::fs::write(&state, cluster_state()).unwrap();
    storage.add_blocks(&state);
    let dir = server.dir.path();
    let kubeconfig = std::fs::read_to_string(dir.join("kubeconfig")).unwrap();
    let (_, server) = kubeconfig.split_once("https://").unwrap();
    let address = server.lines().next().unwrap().trim_end_matches(['"', ',']);
    let dir = dir.display();
    let config = format!(
        "{}- job_name: gpu-metrics-apiserver\n  \
           scheme: https\n  \
           tls_config: {{ca_file: {dir}/ca.crt, cert_file: {dir}/client.crt, key_file: {dir}/client.key}}\n  \
           static_configs:\n  \
           - targets: [\"{address}\"]\n    \
             labels: {{namespace: gpu-metrics, pod: gpu-metrics-apiserver-0}}\n",
        exporters.scrapes()
    );
    storage.start(&config).await
}

/// A query with the variables of Grafana and of the dashboard replaced.
fn filled(expression: &str, variables: &[Value]) -> String {
    let mut filled = expression.to_owned();
    for variable in variables {
        let name = variable["name"].as_str().unwrap();
        let constant = variable["type"] == "constant";
        let value = if constant {
            &variable["query"]
        } else {
            &variable["allValue"]
        };
        let value = value.as_str().unwrap_or_default();
        filled = filled.replace(&format!("${{{name}:raw}}"), value);
        filled = filled.replace(&format!("\"${name}\""), &format!("\"{value}\""));
    }
    let filled = filled.replace("$__rate_interval", "1m");
    assert!(!filled.contains("$_") && !filled.contains("${"), "{filled}");
    filled
}

/// Waits until a query has values, and these values if given: exporters are scraped
/// one after the other, and an instant may be between two of them.
async fn numbers(
    prometheus: &Store,
    query: &str,
    wanted: Option<&[(&str, f64)]>,
) -> Vec<(Value, f64)> {
    in_time(query, PATIENCE, async || {
        let now = unix_seconds();
        let found = prometheus.query(query, &format!("{now:.3}")).await;
        let is_there = match wanted {
            Some(wanted) => rows(&found)
                .iter()
                .map(|(who, value)| (who.as_str(), *value))
                .eq(wanted.iter().copied()),
            None => found.iter().any(|(_, value)| !value.is_nan()),
        };
        found_if(found, |_| is_there)
    })
    .await
}

/// The exact values of a panel for the scene, if known.
fn wanted(title: &str) -> Option<&'static [(&'static str, f64)]> {
    Some(match title {
        "GPUs held" => &[("-/-", 7.0)],
        "gpu_memory_utilization by namespace" => &[("team-a/-", 60.0), ("team-b/-", 25.0)],
        "gpu_memory_utilization by workload" => &[
            ("team-a/far", 80.0),
            ("team-a/train", 50.0),
            ("team-b/batch", 30.0),
            ("team-b/serve", 20.0),
        ],
        "Held and idle for half an hour, by owner" => {
            &[("team-a/idle", 1.0), ("team-b/batch", 1.0)]
        }
        // The scene has no faults.
        "Findings" => &[],
        _ => return None,
    })
}

/// Namespace, workload if there is one, and value, sorted.
fn rows(found: &[(Value, f64)]) -> Vec<(String, f64)> {
    let text = |labels: &Value, name: &str| labels[name].as_str().unwrap_or("-").to_owned();
    let row = |(labels, value): &(Value, f64)| {
        let who = format!("{}/{}", text(labels, "namespace"), text(labels, "workload"));
        (who, *value)
    };
    let mut rows: Vec<_> = found.iter().map(row).collect();
    rows.sort_by(|left, right| left.0.cmp(&right.0));
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_of_the_dashboard_has_data() {
    let exporters = exporters().await;
    let source = Storage::new().start(&exporters.scrapes()).await;
    let server = Reader::start(&source.url, "{window: 10s, freshness: 20s}");
    let prometheus = monitoring(&exporters, &server).await;
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    for variable in variables.iter().filter(|it| it["type"] == "query") {
        let query = variable["definition"].as_str().unwrap();
        let inner = query.strip_prefix("label_values(").unwrap();
        let (series, label) = inner.trim_end_matches(')').rsplit_once(", ").unwrap();
        let found = numbers(&prometheus, &filled(series, variables), None).await;
        assert!(found[0].0[label].is_string(), "{query}: {found:?}");
    }
    let mut count = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            let query = filled(target["expr"].as_str().unwrap(), variables);
            numbers(&prometheus, &query, wanted(title)).await;
            count += 1;
        }
    }
    assert!(count > 25, "{count}");
}
