//! `explain` of the past, from a real Prometheus and an autoscaler of a real kube-apiserver.

use apimachinery::time::Timestamp;
use cluster_state::clock;
use serde_json::{Value, json};

use crate::cluster::workload::{autoscaler, on_pods};
use crate::controlplane::{ControlPlane, shared};
use crate::program::{End, Program};
use crate::prometheus::{Recording, Store};

/// Six hours, in scrapes.
const SCRAPE: i64 = 15;
const SCRAPES: i64 = 6 * 240;

/// When the load or the number of replicas changes, in seconds since the start.
const LOADED: i64 = 1800;
const GROWN: i64 = 1950;
const IDLE: i64 = 3600;
const SHRUNK: i64 = 4020;
const BY_HAND: i64 = 7200;

const PODS: [&str; 4] = [
    "infer-5d4f8c9b7-bcdfg",
    "infer-5d4f8c9b7-bcdfh",
    "infer-5d4f8c9b7-bcdfj",
    "infer-5d4f8c9b7-bcdfk",
];

/// The replicas: the metrics ask for 4 and 3 are allowed, they ask for 1, and a person orders 2.
fn replicas(at: i64) -> i64 {
    match at {
        ..GROWN => 2,
        GROWN..SHRUNK => 3,
        SHRUNK..BY_HAND => 1,
        _ => 2,
    }
}

/// Whether a pod exists.
fn exists(pod: usize, at: i64) -> bool {
    match pod {
        0 => true,
        1 => at < SHRUNK,
        2 => (GROWN..SHRUNK).contains(&at),
        _ => at >= BY_HAND,
    }
}

/// New pods are Ready after 30 s.
fn is_ready(pod: usize, at: i64) -> bool {
    match pod {
        2 => at >= GROWN + 30,
        3 => at >= BY_HAND + 30,
        _ => true,
    }
}

/// Percent of each GPU.
fn load(at: i64) -> i64 {
    match at {
        ..LOADED => 40,
        LOADED..GROWN => 90,
        GROWN..IDLE => 50,
        IDLE..SHRUNK => 10,
        _ => 40,
    }
}

/// A number by the seconds since the start.
type ByTime = fn(i64) -> i64;

/// A Prometheus with six hours up to now, and their start.
async fn recorded() -> (Store, i64) {
    let start = (clock::now().secs() - SCRAPES * SCRAPE) / SCRAPE * SCRAPE;
    let mut recording = Recording::new((start, SCRAPE, SCRAPES));
    for (place, pod) in PODS.iter().enumerate() {
        let there = |value: i64, at: i64| exists(place, at).then_some(value);
        let name = format!(r#"namespace="team",pod="{pod}""#);
        let device = format!(
            r#"UUID="GPU-{place}",gpu="{place}",Hostname="node-1",instance="a:9400",job="dcgm",exported_namespace="team",exported_pod="{pod}""#
        );
        let series = format!("DCGM_FI_DEV_MEM_COPY_UTIL{{{device}}}");
        recording.add(&series, |at| there(load(at), at));
        let series = format!(r#"kube_pod_status_ready{{{name},condition="true"}}"#);
        recording.add(&series, |at| there(is_ready(place, at).into(), at));
        let owner = r#"owner_kind="ReplicaSet",owner_name="infer-5d4f8c9b7""#;
        let series = format!("kube_pod_owner{{{name},{owner}}}");
        recording.add(&series, |at| there(1, at));
    }
    let metric = r#",metric_name="gpu_memory_utilization",metric_target_type="average""#;
    let written: [(&str, &str, ByTime); 5] = [
        ("spec_max_replicas", "", |_| 3),
        ("spec_target_metric", metric, |_| 50),
        ("status_desired_replicas", "", replicas),
        ("status_current_replicas", "", |at| replicas(at - SCRAPE)),
        // That of the load before the pods change.
        ("status_target_metric", metric, |at| load(at - SCRAPE)),
    ];
    for (name, more, value) in written {
        let of = r#"namespace="team",horizontalpodautoscaler="infer""#;
        let series = format!("kube_horizontalpodautoscaler_{name}{{{of}{more}}}");
        recording.add(&series, |at| Some(value(at)));
    }
    let ready = |at: i64| {
        let ready = (0..PODS.len()).filter(|pod| exists(*pod, at) && is_ready(*pod, at));
        ready.count()
    };
    let of = r#"{namespace="team",deployment="infer"}"#;
    let series = format!("kube_deployment_spec_replicas{of}");
    recording.add(&series, |at| Some(replicas(at)));
    let series = format!("kube_deployment_status_replicas_ready{of}");
    recording.add(&series, |at| Some(ready(at)));
    (recording.start().await, start)
}

/// A kube-apiserver with an autoscaler of this name.
fn autoscaled(name: &str) -> &'static ControlPlane {
    let metrics = json!([on_pods("gpu_memory_utilization", "50")]);
    let mut object = autoscaler(("team", name), name, 3, &metrics, &Value::Null);
    object["spec"].as_object_mut().unwrap().remove("behavior");
    shared().apply(&object);
    shared()
}

fn run(store: &Store, plane: &ControlPlane, words: &[&str]) -> End {
    let mut command = Program::plugin(["explain"]);
    command.args(words).args(["-o", "json"]);
    command.args(["--prometheus-url", &store.url]);
    command.arg("--kubeconfig").arg(plane.kubeconfig());
    let end = Program::run(command);
    end.assert_orderly();
    end
}

fn explain(store: &Store, plane: &ControlPlane, words: &[&str]) -> Value {
    let end = run(store, plane, words);
    assert_eq!(end.code, Some(0), "{end:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

/// The values of all facts by their names.
fn facts(document: &Value) -> Value {
    let mut all = json!({});
    for block in document["blocks"].as_array().unwrap() {
        for (name, value) in block["facts"].as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_and_values_of_the_past_are_explained_from_prometheus() {
    let ((store, start), plane) = (recorded().await, autoscaled("infer"));
    let date = |second: i64| Timestamp::from_secs(start + second).date();
    let document = explain(&store, plane, &["hpa", "team/infer", "--last", "12h"]);
    let blocks = document["blocks"].as_array().unwrap();
    let mut tables = blocks.iter().filter(|block| block["kind"] == "table");
    let rows = tables.next().unwrap()["rows"].as_array().unwrap();
    let changes: Vec<[i64; 2]> = rows
        .iter()
        .map(|row| ["from", "to"].map(|key| row[key].as_f64().unwrap() as i64))
        .collect();
    assert_eq!(changes, [[2, 3], [3, 1], [1, 2]], "{document}");
    for (row, value, asked, held, at) in [
        // 1.8 times two pods; three are allowed.
        (&rows[0], 90.0, 4.0, "TooManyReplicas", GROWN),
        // 0.2 times three pods.
        (&rows[1], 10.0, 1.0, "", SHRUNK),
    ] {
        assert_eq!(row["metric"], "gpu_memory_utilization", "{row}");
        assert_eq!(row["value"], value, "{row}");
        assert_eq!(row["target"], "50 per pod", "{row}");
        assert_eq!(row["asked"], asked, "{row}");
        assert_eq!(row["held"], held, "{row}");
        assert_eq!(row["time"], date(at), "{row}");
    }
    assert_eq!(rows[0]["readyAfter"], 30.0, "{document}");
    assert_eq!(rows[2]["metric"], Value::Null, "{document}");
    let said = document.to_string();
    assert!(
        said.contains("the recorded values make 1 replica"),
        "{said}"
    );

    let document = explain(
        &store,
        plane,
        &["hpa/infer", "-n", "team", "--at", &date(GROWN)],
    );
    let known = facts(&document);
    assert_eq!(
        (&known["replicas"], &known["desired"]),
        (&json!(2.0), &json!(3.0)),
        "{document}"
    );
    let said = document.to_string();
    for words in [
        "2 pods with a value",
        "1.8 times 2 pods is 4",
        "TooManyReplicas",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }

    let then = date(GROWN - 5);
    for (kind, name) in [("pod", PODS[1]), ("deploy", "infer"), ("ns", "team")] {
        let name = match kind {
            "ns" => name.to_owned(),
            _ => format!("team/{name}"),
        };
        let document = explain(&store, plane, &[kind, &name, "--at", &then]);
        assert_eq!(facts(&document)["value"], 90.0, "{document}");
        assert!(document.to_string().contains("avg_over_time"), "{document}");
    }
    // A window of a minute ends 15 s after the time: of 12 instants 5 are at 40 and 7 at 90.
    let half = date(LOADED + 15);
    let deploy = ["deploy", "team/infer", "--at", &half];
    let document = explain(&store, plane, &deploy);
    let value = facts(&document)["value"].as_f64().unwrap();
    assert!((value - 830.0 / 12.0).abs() < 0.01, "{document}");
    let new = format!("team/{}", PODS[2]);
    let new = explain(&store, plane, &["pod", &new, "--at", &date(GROWN + 20)]);
    assert!(new.to_string().contains("had not been Ready"), "{new}");
    let gone = explain(&store, plane, &["pod", "team/gone", "--at", &half]);
    assert!(
        gone.to_string().contains("no series of that time"),
        "{gone}"
    );
    let unscraped = autoscaled("other");
    let end = run(&store, unscraped, &["hpa", "team/other", "--last", "1h"]);
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stderr.contains("scrape kube-state-metrics"), "{end:?}");
}
