//! `usage` over a week of a real Prometheus, beside PromQL on the same Prometheus.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::program::Program;
use crate::prometheus::{Recording, Store};

/// The start, a midnight, and a week of readings, one each minute.
const WEEK: (i64, i64, i64) = (1_700_006_400, 60, 7 * 24 * 60);

const FROM: &str = "2023-11-15T00:00:00Z";
const UNTIL: &str = "2023-11-22T00:00:00Z";

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

const INFER: [&str; 2] = ["infer-5d4f8c9b7-bcdfg", "infer-5d4f8c9b7-bcdfh"];

/// Percent of a GPU of a service by day, and of none at night.
fn by_day(second: i64) -> Option<f64> {
    let hour = second / HOUR % 24;
    Some(if (8..20).contains(&hour) { 45.0 } else { 0.0 })
}

/// The same, without readings for three hours of the third day.
fn with_gap(second: i64) -> Option<f64> {
    let gap = 2 * DAY + 10 * HOUR..2 * DAY + 13 * HOUR;
    by_day(second).filter(|_| !gap.contains(&second))
}

/// Busy on the first day, for as long as the pod lives, which is three days.
fn first_day(second: i64) -> Option<f64> {
    (second < 3 * DAY).then_some(if second < DAY { 97.0 } else { 0.0 })
}

fn idle(_: i64) -> Option<f64> {
    Some(0.0)
}

type Load = fn(i64) -> Option<f64>;

/// A device with its MIG instance, the pod that holds it, and its load.
const DEVICES: [(&str, &str, &str, &str, Load); 9] = [
    ("GPU-0", "", "team-a", INFER[0], by_day),
    ("GPU-1", "", "team-a", INFER[1], with_gap),
    ("GPU-2", "", "team-b", "train-0", first_day),
    ("GPU-3", "", "team-b", "train-0", first_day),
    ("GPU-4", "1 3g.40gb", "team-c", "mig-a", by_day),
    ("GPU-4", "2 4g.40gb", "team-c", "mig-b", idle),
    ("GPU-5", "", "team-d", "share-a", by_day),
    ("GPU-5", "", "team-d", "share-b", by_day),
    ("GPU-6", "", "", "", idle),
];

/// A Prometheus with the recorded series; the owners are those of kube-state-metrics.
async fn recorded() -> Store {
    let mut recording = Recording::new(WEEK);
    for (uuid, instance, namespace, pod, load) in DEVICES {
        let (name, factor, instance) = match instance.split_once(' ') {
            None => ("DCGM_FI_DEV_MEM_COPY_UTIL", 1.0, String::new()),
            Some((id, profile)) => (
                "DCGM_FI_PROF_DRAM_ACTIVE",
                0.01,
                format!(r#"GPU_I_ID="{id}",GPU_I_PROFILE="{profile}","#),
            ),
        };
        let series = format!(
            r#"{name}{{UUID="{uuid}",{instance}Hostname="node-1",modelName="NVIDIA H100",instance="a:9400",job="dcgm",exported_namespace="{namespace}",exported_pod="{pod}"}}"#
        );
        recording.add(&series, |second| Some(load(second)? * factor));
    }
    for (namespace, pod, kind, owner, role) in [
        (
            "team-a",
            INFER[0],
            "ReplicaSet",
            "infer-5d4f8c9b7",
            "serving",
        ),
        (
            "team-a",
            INFER[1],
            "ReplicaSet",
            "infer-5d4f8c9b7",
            "serving",
        ),
        ("team-b", "train-0", "StatefulSet", "train", "training"),
    ] {
        let of = format!(r#"namespace="{namespace}",pod="{pod}""#);
        for series in [
            format!(r#"kube_pod_owner{{{of},owner_kind="{kind}",owner_name="{owner}"}}"#),
            format!(r#"kube_pod_labels{{{of},label_example_com_role="{role}"}}"#),
        ] {
            recording.add(&series, |_| Some(1));
        }
    }
    recording.start().await
}

/// The rows of owners by their names, and the whole output.
fn usage(prometheus: &Store, flags: &[&str]) -> (BTreeMap<String, Value>, String) {
    let mut command = Program::plugin(["usage", "--prometheus-url", &prometheus.url]);
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

/// Asserts that a number of a row differs by at most one per cent.
fn assert_near(rows: &BTreeMap<String, Value>, name: &str, key: &str, expected: f64) {
    let number = rows[name][key].as_f64().unwrap();
    let is_near = (number - expected).abs() <= 0.01 * expected.abs();
    assert!(is_near, "{name} {key}: {number} and {expected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_week_of_usage_is_that_of_promql() {
    let prometheus = recorded().await;
    let (rows, _) = usage(&prometheus, &["-o", "json", "--price", "H100=2"]);
    for (namespace, key, query) in [
        (
            "team-a",
            "active",
            "sum(count_over_time((SERIES > 0)[7d:1m])) / 60",
        ),
        (
            "team-a",
            "idle",
            "sum(count_over_time((SERIES == 0)[7d:1m])) / 60",
        ),
        (
            "team-a",
            "memoryUtilization",
            "sum(sum_over_time(SERIES[7d])) / sum(count_over_time(SERIES[7d]))",
        ),
        ("team-b", "held", "sum(count_over_time(SERIES[7d])) / 60"),
        (
            "team-b",
            "idle",
            "sum(count_over_time((SERIES == 0)[7d:1m])) / 60",
        ),
        (
            "team-b",
            "memoryUtilization",
            "avg(avg_over_time(SERIES[7d]))",
        ),
        (
            "team-c",
            "active",
            "3 / 7 * sum(count_over_time((DCGM_FI_PROF_DRAM_ACTIVE{GPU_I_PROFILE='3g.40gb'} > 0)[7d:1m])) / 60",
        ),
        (
            "team-d",
            "held",
            "sum(count_over_time(max by (UUID) (SERIES)[7d:1m])) / 60",
        ),
        (
            "team-d",
            "cost",
            "2 * sum(count_over_time(max by (UUID) (SERIES)[7d:1m])) / 60",
        ),
    ] {
        let series = format!("DCGM_FI_DEV_MEM_COPY_UTIL{{exported_namespace='{namespace}'}}");
        let query = query.replace("SERIES", &series);
        let expected = prometheus.number(&query, UNTIL).await;
        assert_near(&rows, namespace, key, expected.unwrap());
    }
    // What the readings are made of, in GPU-hours.
    for (namespace, held, unknown) in [
        ("team-a", 2.0 * 168.0, 3.0),
        ("team-b", 2.0 * 72.0, 0.0),
        ("team-c", 168.0, 0.0),
        ("team-d", 168.0, 0.0),
    ] {
        assert_near(&rows, namespace, "held", held);
        let seen = rows[namespace]["unknown"].as_f64().unwrap();
        assert!((seen - unknown).abs() < 0.1, "{rows:?}");
    }
    assert_eq!(rows.len(), 4, "{rows:?}");
    let (rows, _) = usage(&prometheus, &["-n", "team-b", "-o", "json"]);
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["team-b"]);

    // The label of a pod; pods without it are unknown.
    let flags = ["--by", "label=example.com/role", "-o", "json"];
    let (rows, _) = usage(&prometheus, &flags);
    assert_near(&rows, "serving", "held", 2.0 * 168.0);
    assert_near(&rows, "training", "held", 2.0 * 72.0);
    assert_near(&rows, "unknown", "held", 2.0 * 168.0);
    assert_eq!(rows.len(), 3, "{rows:?}");
    owners(&prometheus);
}

/// They are named, those with the most idle hours first, and unknown ones are unknown.
fn owners(prometheus: &Store) {
    let flags = ["--by", "workload", "-o", "csv", "--price", "A100=2"];
    let (_, csv) = usage(prometheus, &flags);
    let lines: Vec<Vec<&str>> = csv.lines().map(|it| it.split(',').collect()).collect();
    assert_eq!(
        csv.lines().next().unwrap(),
        "namespace,name,held,active,idle,unknown,memoryUtilization,cost,idleCost"
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
    let (_, text) = usage(prometheus, &["--by", "workload", "--price", "A100=2"]);
    for said in [
        "held GPU-hours were idle",
        "Largest idle spans",
        "from kube_pod_owner",
        "IDLE FOR",
        "No price is of these GPUs, and their owners have no cost: NVIDIA H100.",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
