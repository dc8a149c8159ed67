//! `usage` over a week of a real Prometheus, beside PromQL on the same Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use apimachinery::time::Timestamp;
use prometheus_source::settings::{PrometheusSettings, parse_url};
use prometheus_source::{KeyHasher, Prometheus};
use serde_json::Value;

use crate::program::Program;
use crate::prometheus::{Storage, Store, blocks};

/// The start, a midnight, and a week of readings, one each minute.
const START: i64 = 1_700_006_400;
const MINUTES: i64 = 7 * 24 * 60;

const FROM: &str = "2023-11-15T00:00:00Z";
const UNTIL: &str = "2023-11-22T00:00:00Z";

const INFER: &str = "infer-5d4f8c9b7-bcdfg";

/// Percent of a GPU of a service by day, and of none at night.
fn by_day(minute: i64) -> Option<f64> {
    let hour = minute / 60 % 24;
    Some(if (8..20).contains(&hour) { 45.0 } else { 0.0 })
}

/// The same, without readings for three hours of the third day.
fn with_gap(minute: i64) -> Option<f64> {
    let gap = 2 * 1440 + 600..2 * 1440 + 780;
    by_day(minute).filter(|_| !gap.contains(&minute))
}

/// Busy on the first day, for as long as the pod lives, which is three days.
fn first_day(minute: i64) -> Option<f64> {
    (minute < 3 * 1440).then_some(if minute < 1440 { 97.0 } else { 0.0 })
}

type Load = fn(i64) -> Option<f64>;

/// A device with its MIG instance, the pod that holds it, and its load.
const DEVICES: [(&str, &str, &str, &str, Load); 9] = [
    ("GPU-0", "", "team-a", INFER, by_day),
    ("GPU-1", "", "team-a", "infer-5d4f8c9b7-bcdfh", with_gap),
    ("GPU-2", "", "team-b", "train-0", first_day),
    ("GPU-3", "", "team-b", "train-0", first_day),
    (
        "GPU-4",
        r#"GPU_I_ID="1",GPU_I_PROFILE="3g.40gb","#,
        "team-c",
        "mig-a",
        by_day,
    ),
    (
        "GPU-4",
        r#"GPU_I_ID="2",GPU_I_PROFILE="4g.40gb","#,
        "team-c",
        "mig-b",
        |_| Some(0.0),
    ),
    ("GPU-5", "", "team-d", "share-a", by_day),
    ("GPU-5", "", "team-d", "share-b", by_day),
    ("GPU-6", "", "", "", |_| Some(0.0)),
];

/// A Prometheus with the recorded series; the owners are those of kube-state-metrics.
async fn recorded() -> Store {
    let mut out = String::new();
    for (uuid, instance, namespace, pod, load) in DEVICES {
        let (name, factor) = match instance {
            "" => ("DCGM_FI_DEV_MEM_COPY_UTIL", 1.0),
            _ => ("DCGM_FI_PROF_DRAM_ACTIVE", 0.01),
        };
        let labels = format!(
            r#"UUID="{uuid}",{instance}Hostname="node-1",modelName="NVIDIA H100",instance="a:9400",job="dcgm",exported_namespace="{namespace}",exported_pod="{pod}""#
        );
        for minute in 0..MINUTES {
            if let Some(percent) = load(minute) {
                let at = START + 60 * minute;
                writeln!(out, "{name}{{{labels}}} {} {at}", percent * factor).unwrap();
            }
        }
    }
    for (pod, kind, owner) in [
        (INFER, "ReplicaSet", "infer-5d4f8c9b7"),
        ("infer-5d4f8c9b7-bcdfh", "ReplicaSet", "infer-5d4f8c9b7"),
        ("train-0", "StatefulSet", "train"),
    ] {
        let (namespace, role) = match kind {
            "ReplicaSet" => ("team-a", "serving"),
            _ => ("team-b", "training"),
        };
        for hour in 0..MINUTES / 60 {
            let at = START + 3600 * hour;
            writeln!(out, r#"kube_pod_owner{{namespace="{namespace}",pod="{pod}",owner_kind="{kind}",owner_name="{owner}"}} 1 {at}"#).unwrap();
            writeln!(out, r#"kube_pod_labels{{namespace="{namespace}",pod="{pod}",label_example_com_role="{role}"}} 1 {at}"#).unwrap();
        }
    }
    let storage = Storage::new();
    blocks(&storage, &out, |out| {
        std::io::Write::write_all(out, b"# EOF\n")
    });
    storage.start("").await
}

/// The rows of owners by their names, and the whole output.
fn usage(url: &str, flags: &[&str]) -> (BTreeMap<String, Value>, String) {
    let mut command = Program::plugin(["usage", "--prometheus-url", url]);
    command
        .args(["--since", FROM, "--until", UNTIL])
        .args(flags);
    let end = Program::run(command);
    end.assert_orderly();
    assert_eq!(end.code, Some(0), "{end:?}");
    let document: Value = serde_json::from_str(&end.stdout).unwrap_or_default();
    let blocks = document["blocks"].as_array().into_iter().flatten();
    let mut tables = blocks.filter(|block| block["caption"] == "GPU-hours by owner");
    let rows = tables.next().map(|table| table["rows"].clone());
    let rows = rows.unwrap_or_default();
    let rows = rows.as_array().into_iter().flatten();
    let by_name = rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row.clone()));
    (by_name.collect(), end.stdout)
}

/// Asserts that two numbers differ by at most one per cent.
fn assert_near(of: &str, number: f64, expected: f64) {
    let most = 0.01 * expected.abs();
    assert!(
        (number - expected).abs() <= most,
        "{of}: {number} and {expected}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_week_of_usage_is_that_of_promql() {
    let prometheus = recorded().await;
    let url = parse_url(&prometheus.url).unwrap();
    let promql = Prometheus::new(PrometheusSettings::new(url), KeyHasher::new()).unwrap();
    let until = Timestamp::from_date(UNTIL).unwrap();
    let (rows, _) = usage(&prometheus.url, &["-o", "json", "--price", "H100=2"]);
    let (gpu, mig) = (
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "100 * DCGM_FI_PROF_DRAM_ACTIVE",
    );
    for (namespace, key, query) in [
        (
            "team-a",
            "active",
            format!("sum(count_over_time(({gpu}{{exported_namespace='team-a'}} > 0)[7d:1m])) / 60"),
        ),
        (
            "team-a",
            "idle",
            format!(
                "sum(count_over_time(({gpu}{{exported_namespace='team-a'}} == 0)[7d:1m])) / 60"
            ),
        ),
        (
            "team-a",
            "memoryUtilization",
            format!(
                "sum(sum_over_time({gpu}{{exported_namespace='team-a'}}[7d])) / sum(count_over_time({gpu}{{exported_namespace='team-a'}}[7d]))"
            ),
        ),
        (
            "team-b",
            "held",
            format!("sum(count_over_time({gpu}{{exported_namespace='team-b'}}[7d])) / 60"),
        ),
        (
            "team-b",
            "idle",
            format!(
                "sum(count_over_time(({gpu}{{exported_namespace='team-b'}} == 0)[7d:1m])) / 60"
            ),
        ),
        (
            "team-b",
            "memoryUtilization",
            format!("avg(avg_over_time({gpu}{{exported_namespace='team-b'}}[7d]))"),
        ),
        (
            "team-c",
            "active",
            format!(
                "3 / 7 * sum(count_over_time(({mig}{{GPU_I_PROFILE='3g.40gb'}} > 0)[7d:1m])) / 60"
            ),
        ),
        (
            "team-d",
            "held",
            format!(
                "sum(count_over_time(max by (UUID) ({gpu}{{exported_namespace='team-d'}})[7d:1m])) / 60"
            ),
        ),
        (
            "team-d",
            "cost",
            format!(
                "2 * sum(count_over_time(max by (UUID) ({gpu}{{exported_namespace='team-d'}})[7d:1m])) / 60"
            ),
        ),
    ] {
        let found = promql.query(&query, until).await.unwrap();
        let number = rows[namespace][key].as_f64().unwrap();
        assert_near(&format!("{namespace} {key}"), number, found[0].value);
    }
    // What the readings are made of, in GPU-hours.
    for (namespace, held, unknown) in [
        ("team-a", 2.0 * 168.0, 3.0),
        ("team-b", 2.0 * 72.0, 0.0),
        ("team-c", 168.0, 0.0),
        ("team-d", 168.0, 0.0),
    ] {
        let row = &rows[namespace];
        assert_near(namespace, row["held"].as_f64().unwrap(), held);
        let seen = row["unknown"].as_f64().unwrap();
        assert!((seen - unknown).abs() < 0.1, "{row}");
    }
    assert_eq!(rows.len(), 4, "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_are_named_worst_first_and_unknown_ones_are_unknown() {
    let prometheus = recorded().await;
    let flags = ["--by", "workload", "-o", "csv", "--price", "A100=2"];
    let (_, csv) = usage(&prometheus.url, &flags);
    let lines: Vec<Vec<&str>> = csv.lines().map(|it| it.split(',').collect()).collect();
    assert_eq!(
        lines[0],
        [
            "namespace",
            "name",
            "held",
            "active",
            "idle",
            "unknown",
            "memoryUtilization",
            "cost",
            "idleCost"
        ]
    );
    let names: Vec<[&str; 2]> = lines[1..].iter().map(|it| [it[0], it[1]]).collect();
    assert_eq!(
        names,
        [
            ["team-a", "Deployment/infer"],
            ["team-c", "unknown"],
            ["team-b", "StatefulSet/train"],
            ["team-d", "unknown"],
        ]
    );
    // The model has no price.
    assert!(lines[1..].iter().all(|it| it[7].is_empty()), "{csv}");
    let (_, text) = usage(&prometheus.url, &["--by", "workload"]);
    for said in [
        "held GPU-hours were idle",
        "Largest idle spans",
        "from kube_pod_owner",
        "IDLE FOR",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let (_, text) = usage(&prometheus.url, &["--price", "A100=2"]);
    let said = "No price is of these GPUs, and their owners have no cost: NVIDIA H100.";
    assert!(text.contains(said), "{text}");
    let (rows, _) = usage(&prometheus.url, &["-n", "team-b", "-o", "json"]);
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["team-b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_added_up_by_the_value_of_a_label() {
    let prometheus = recorded().await;
    let flags = ["--by", "label=example.com/role", "-o", "json"];
    let (rows, _) = usage(&prometheus.url, &flags);
    let held = |role: &str| rows[role]["held"].as_f64().unwrap();
    assert_near("serving", held("serving"), 2.0 * 168.0);
    assert_near("training", held("training"), 2.0 * 72.0);
    // Pods without the label.
    assert_near("unknown", held("unknown"), 2.0 * 168.0);
    assert_eq!(rows.len(), 3, "{rows:?}");
}
