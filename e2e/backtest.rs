//! `backtest` with the recorded data of a real Prometheus.

use kubectl_gpu_metrics::check::SAMPLE_HPA;
use serde_json::Value;

use crate::program::{End, Program};
use crate::prometheus::{Recording, Store};

/// The start, a midnight, and two days of readings, one each minute.
const TWO_DAYS: (i64, i64, i64) = (1_700_006_400, 60, 2 * 24 * 60);

const HOUR: i64 = 3600;

/// A demand of six GPUs from 8 to 20 o'clock, and of half a GPU at night.
fn demand(second: i64) -> f64 {
    let hour = second / HOUR % 24;
    if (8..20).contains(&hour) { 6.0 } else { 0.5 }
}

/// Sixteen pods from 7 to 21 o'clock, eight at night.
fn pods(second: i64) -> i64 {
    let hour = second / HOUR % 24;
    if (7..21).contains(&hour) { 16 } else { 8 }
}

/// All pods: the eight that stay, and eight for each day.
const ALL: i64 = 24;

/// Whether a pod exists. Those of a day do not come back on the next one.
fn exists(pod: i64, second: i64) -> bool {
    let day = second / (24 * HOUR);
    pod < 8 || (pods(second) == 16 && (8 * (day + 1)..8 * (day + 2)).contains(&pod))
}

/// The name of a pod, as a ReplicaSet gives it.
fn name(pod: i64) -> String {
    let letters = b"bcdfghjklmnpqrstvwxz2456".map(char::from);
    format!("infer-5d4f8c9b7-bcdf{}", letters[pod as usize])
}

/// A Prometheus with the recorded series; with kube-state-metrics also owners and replicas.
async fn recorded(with_owners: bool) -> Store {
    let mut recording = Recording::new(TWO_DAYS);
    for pod in 0..ALL {
        let gpu = if pod < 16 { pod } else { pod - 8 };
        let name = name(pod);
        let series = format!(
            r#"DCGM_FI_DEV_MEM_COPY_UTIL{{UUID="GPU-{gpu}",gpu="{gpu}",instance="a:9400",job="dcgm",exported_namespace="team",exported_pod="{name}"}}"#
        );
        recording.add(&series, |second| match exists(pod, second) {
            true => Some(100.0 * demand(second) / pods(second) as f64),
            // A block has no staleness marker for a series that ended.
            false => Some(f64::NAN),
        });
        let series = format!(r#"requests_running{{namespace="team",pod="{name}"}}"#);
        recording.add(&series, |second| match exists(pod, second) {
            true => Some(10.0 * demand(second) / pods(second) as f64),
            false => Some(0.0),
        });
        let series = format!(
            r#"kube_pod_owner{{namespace="team",pod="{name}",owner_kind="ReplicaSet",owner_name="infer-5d4f8c9b7"}}"#
        );
        recording.add(&series, |_| with_owners.then_some(1));
    }
    let series = r#"requests_waiting{namespace="team"}"#;
    recording.add(series, |second| Some(10.0 * demand(second)));
    let series = r#"kube_deployment_spec_replicas{namespace="team",deployment="infer"}"#;
    recording.add(series, |second| with_owners.then_some(pods(second)));
    recording.start().await
}

/// An autoscaler from 1 to 20 replicas, with a target of 50.
fn hpa() -> String {
    let text = SAMPLE_HPA.replace("maxReplicas: 4", "maxReplicas: 20");
    text.replace("llm-server", "infer")
        .replace("team-a", "team")
}

/// Of an autoscaler, from one time to another, with the rules of this file.
fn run(store: &Store, hpa: &str, (from, to): (&str, &str), flags: &[&str]) -> End {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("hpa.yaml", hpa);
    write("rules.yaml", RULES);
    let mut command = Program::plugin(["backtest", "--prometheus-url", &store.url]);
    command.current_dir(dir.path()).arg("hpa.yaml");
    command.args(["--since", from, "--until", to]).args(flags);
    let end = Program::run(command);
    end.assert_orderly();
    end
}

fn report(end: &End) -> Value {
    assert_eq!(end.code, Some(0), "{end:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

const WHOLE: (&str, &str) = ("2023-11-15T00:00:00Z", "2023-11-17T00:00:00Z");

/// The first block of a document with this key and text.
fn block<'d>(document: &'d Value, key: &str, text: &str) -> &'d Value {
    let blocks = document["blocks"].as_array().unwrap();
    let mut found = blocks.iter().filter(|block| block[key] == text);
    found.next().unwrap_or_else(|| panic!("{text}: {document}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_days_of_a_real_prometheus_are_simulated_and_printed() {
    let store = recorded(true).await;
    let report = report(&run(&store, &hpa(), WHOLE, &["-o", "json"]));
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
    let end = run(&store, &hpa(), WHOLE, &["--sweep"]);
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
    sums_of_rules(&store);
}

/// A sum of a rule is read by the rule's query.
fn sums_of_rules(store: &Store) {
    let flags = ["-o", "json", "--sweep", "--config", "rules.yaml"];
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
        let hpa = OF_REQUESTS.replace("METRIC", metric);
        let report = report(&run(store, &hpa, WHOLE, &flags));
        let figures = block(&report, "caption", "What was, and what would have been");
        // As for the utilisation, without a window.
        let hours = figures["rows"][1]["gpuHours"].as_f64().unwrap();
        assert!((312.0..316.0).contains(&hours), "{report}");
        assert_eq!(figures["rows"][3]["name"], "75 % of it", "{report}");
        assert!(report.to_string().contains(demand), "{report}");
        let end = run(store, &hpa, WHOLE, &["--sweep"]);
        assert_eq!(end.code, Some(2), "{end:?}");
        assert!(end.stderr.contains("no rule gives this metric"), "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_owners_pods_are_identified_by_name() {
    let store = recorded(false).await;
    let part = ("2023-11-15T04:00:00Z", "2023-11-15T12:00:00Z");
    let end = run(&store, &hpa(), part, &[]);
    assert_eq!(end.code, Some(0), "{end:?}");
    let said = end.stdout.replace("\n  ", " ");
    for words in [
        "names that only a Deployment gives",
        "the pods that held GPUs",
        "demand does not depend on the number of replicas",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let before = ("2022-11-15T00:00:00Z", "2022-11-17T00:00:00Z");
    let end = run(&store, &hpa(), before, &[]);
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
