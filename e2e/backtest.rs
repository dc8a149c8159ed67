//! `backtest` with the recorded data of a real Prometheus.

use std::fmt::Write as _;
use std::path::PathBuf;

use kubectl_gpu_metrics::check::SAMPLE_HPA;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{End, Program};
use crate::prometheus::{Storage, Store, blocks};

/// The start, a midnight, and two days of readings, one each minute.
const START: i64 = 1_700_006_400;
const MINUTES: i64 = 2 * 24 * 60;

/// A demand of six GPUs from 8 to 20 o'clock, and of half a GPU at night.
fn demand(minute: i64) -> f64 {
    let hour = minute / 60 % 24;
    if (8..20).contains(&hour) { 6.0 } else { 0.5 }
}

/// Sixteen pods from 7 to 21 o'clock, eight at night.
fn pods(minute: i64) -> i64 {
    let hour = minute / 60 % 24;
    if (7..21).contains(&hour) { 16 } else { 8 }
}

/// All pods: the eight that stay, and eight for each day.
const ALL: i64 = 24;

/// Whether a pod exists. Those of a day do not come back on the next one.
fn exists(pod: i64, minute: i64) -> bool {
    let day = minute / (24 * 60);
    pod < 8 || (pods(minute) == 16 && (8 * (day + 1)..8 * (day + 2)).contains(&pod))
}

/// The name of a pod, as a ReplicaSet gives it.
fn name(pod: i64) -> String {
    let letters = b"bcdfghjklmnpqrstvwxz2456".map(char::from);
    format!("infer-5d4f8c9b7-bcdf{}", letters[pod as usize])
}

/// The recorded series; with kube-state-metrics also owners and replicas.
fn lines(with_owners: bool) -> String {
    let mut out = String::new();
    let minutes = || (0..MINUTES).map(|minute| (minute, START + 60 * minute));
    for pod in 0..ALL {
        let gpu = if pod < 16 { pod } else { pod - 8 };
        let labels = format!(
            r#"{{UUID="GPU-{gpu}",gpu="{gpu}",instance="a:9400",job="dcgm",exported_namespace="team",exported_pod="{}"}}"#,
            name(pod)
        );
        for (minute, at) in minutes() {
            let percent = match exists(pod, minute) {
                true => (100.0 * demand(minute) / pods(minute) as f64).to_string(),
                // A block has no staleness marker for a series that ended.
                false => "NaN".to_owned(),
            };
            writeln!(out, "DCGM_FI_DEV_MEM_COPY_UTIL{labels} {percent} {at}").unwrap();
        }
    }
    let constant = |out: &mut String, series: &str| {
        for (_, at) in minutes() {
            writeln!(out, "{series} 1 {at}").unwrap();
        }
    };
    for (minute, at) in minutes() {
        let requests = 10.0 * demand(minute);
        writeln!(
            out,
            r#"requests_waiting{{namespace="team"}} {requests} {at}"#
        )
        .unwrap();
    }
    for pod in 0..ALL {
        let name = name(pod);
        for (minute, at) in minutes() {
            let share = match exists(pod, minute) {
                true => 10.0 * demand(minute) / pods(minute) as f64,
                false => 0.0,
            };
            let series = format!(r#"requests_running{{namespace="team",pod="{name}"}}"#);
            writeln!(out, "{series} {share} {at}").unwrap();
        }
    }
    if with_owners {
        for pod in 0..ALL {
            let series = format!(
                r#"kube_pod_owner{{namespace="team",pod="{}",owner_kind="ReplicaSet",owner_name="infer-5d4f8c9b7"}}"#,
                name(pod)
            );
            constant(&mut out, &series);
        }
        for (minute, at) in minutes() {
            let series = r#"kube_deployment_spec_replicas{namespace="team",deployment="infer"}"#;
            writeln!(out, "{series} {} {at}", pods(minute)).unwrap();
        }
    }
    out
}

/// A Prometheus with the recorded series.
async fn recorded(with_owners: bool) -> Store {
    let storage = Storage::new();
    blocks(&storage, &lines(with_owners), |out| {
        std::io::Write::write_all(out, b"# EOF\n")
    });
    storage.start("").await
}

/// The file of an autoscaler from 1 to 20 replicas, with a target of 50.
fn hpa(dir: &TempDir) -> PathBuf {
    let file = dir.path().join("hpa.yaml");
    let text = SAMPLE_HPA.replace("maxReplicas: 4", "maxReplicas: 20");
    let text = text
        .replace("llm-server", "infer")
        .replace("team-a", "team");
    std::fs::write(&file, text).unwrap();
    file
}

fn run(url: &str, file: &PathBuf, flags: &[&str]) -> End {
    let mut command = Program::plugin(["backtest", "--prometheus-url", url]);
    command.arg(file).args(flags);
    let end = Program::run(command);
    end.assert_orderly();
    end
}

/// The first block of a document with this key and text.
fn block<'d>(document: &'d Value, key: &str, text: &str) -> &'d Value {
    let blocks = document["blocks"].as_array().unwrap();
    let mut found = blocks.iter().filter(|block| block[key] == text);
    found.next().unwrap_or_else(|| panic!("{text}: {document}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_days_of_a_real_prometheus_are_simulated_and_printed() {
    let prometheus = recorded(true).await;
    let dir = tempfile::tempdir().unwrap();
    let file = hpa(&dir);
    let (from, to) = ("2023-11-15T00:00:00Z", "2023-11-17T00:00:00Z");
    let over = ["--since", from, "--until", to];
    let end = run(
        &prometheus.url,
        &file,
        &[&over[..], &["-o", "json"]].concat(),
    );
    assert_eq!(end.code, Some(0), "{end:?}");
    let report: Value = serde_json::from_str(&end.stdout).unwrap();
    let figures = block(&report, "caption", "What was, and what would have been");
    // (16 × 14 + 8 × 10) hours a day.
    let hours = figures["rows"][0]["gpuHours"].as_f64().unwrap();
    assert!((hours - 608.0).abs() < 2.0, "{report}");
    // Twelve replicas by day, one at night: 12 × 12 + 12 × 1 hours a day. The
    // stabilisation adds a little in the evening. In the morning, windows of four minutes
    // add a little, because they still contain readings of too few replicas.
    let simulated = &figures["rows"][1];
    let hours = simulated["gpuHours"].as_f64().unwrap();
    assert!((312.0..326.0).contains(&hours), "{report}");
    let over_time = block(&report, "caption", "Demand and replicas");
    let rows = over_time["rows"].as_array().unwrap();
    // At noon of the second day.
    let size = |place: usize| &rows[place]["simulated replicas"];
    assert_eq!(*size(3 * rows.len() / 4), 12.0, "{report}");
    assert_eq!(*size(rows.len() - 1), 1.0, "{report}");
    let notes = report["blocks"].to_string();
    for said in [
        "24 pods of Deployment infer; owners of pods are from kube_pod_owner",
        "scraped every 1m",
        "recorded replicas are those of kube-state-metrics",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }

    let end = run(&prometheus.url, &file, &[&over[..], &["--sweep"]].concat());
    assert_eq!(end.code, Some(0), "{end:?}");
    for said in [
        "recorded",
        "GPU-HOURS",
        "✓ best",
        "is the best, a target of",
    ] {
        let is_told = end.stdout.replace('\n', " ").contains(said);
        assert!(is_told, "{said}: {}", end.stdout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_owners_pods_are_identified_by_name() {
    let prometheus = recorded(false).await;
    let dir = tempfile::tempdir().unwrap();
    let file = hpa(&dir);
    let (from, to) = ("2023-11-15T04:00:00Z", "2023-11-15T12:00:00Z");
    let end = run(&prometheus.url, &file, &["--since", from, "--until", to]);
    assert_eq!(end.code, Some(0), "{end:?}");
    let said = end.stdout.replace("\n  ", " ");
    for words in [
        "names that only a Deployment gives",
        "the pods that held GPUs",
        "demand does not depend on the number of replicas",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (before, after) = ("2022-11-15T00:00:00Z", "2022-11-17T00:00:00Z");
    let end = run(
        &prometheus.url,
        &file,
        &["--since", before, "--until", after],
    );
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stderr.contains("no GPU reading for"), "{end:?}");
}

/// Five requests for each replica are the demand of half a GPU.
const OF_REQUESTS: &str = r#"
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: infer, namespace: team}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: infer}
  minReplicas: 1
  maxReplicas: 20
  metrics:
  - METRIC
"#;

const OF_ALL: &str = r#"{type: External, external: {metric: {name: waiting}, target: {type: AverageValue, averageValue: "5"}}}"#;

const OF_PODS: &str = r#"{type: Pods, pods: {metric: {name: requests_running}, target: {type: AverageValue, averageValue: "5"}}}"#;

const RULES: &str = r#"
rules:
- seriesQuery: requests_running{namespace!="",pod!=""}
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
externalRules:
- seriesQuery: requests_waiting{namespace!=""}
  resources: {overrides: {namespace: {resource: namespace}}}
  name: {as: waiting}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_of_a_rule_is_read_by_the_rules_query() {
    let prometheus = recorded(true).await;
    let dir = tempfile::tempdir().unwrap();
    let (file, config) = (dir.path().join("hpa.yaml"), dir.path().join("config.yaml"));
    std::fs::write(&config, RULES).unwrap();
    let (from, to) = ("2023-11-15T00:00:00Z", "2023-11-17T00:00:00Z");
    let over = ["--since", from, "--until", to, "-o", "json", "--sweep"];
    let config = ["--config", config.to_str().unwrap()];
    for (metric, demand) in [
        (
            OF_PODS,
            "demand is the sum of the metric's values of these pods",
        ),
        (
            OF_ALL,
            r#"demand is sum(requests_waiting{namespace=\"team\"})"#,
        ),
    ] {
        std::fs::write(&file, OF_REQUESTS.replace("METRIC", metric)).unwrap();
        let end = run(&prometheus.url, &file, &[&over[..], &config].concat());
        assert_eq!(end.code, Some(0), "{end:?}");
        let report: Value = serde_json::from_str(&end.stdout).unwrap();
        let figures = block(&report, "caption", "What was, and what would have been");
        // As for the utilisation, without a window.
        let hours = figures["rows"][1]["gpuHours"].as_f64().unwrap();
        assert!((312.0..316.0).contains(&hours), "{report}");
        assert_eq!(figures["rows"][3]["name"], "75 % of it", "{report}");
        assert!(report.to_string().contains(demand), "{report}");
    }

    let end = run(&prometheus.url, &file, &over);
    assert_eq!(end.code, Some(2), "{end:?}");
    assert!(end.stderr.contains("no rule gives this metric"), "{end:?}");
}
