//! `explain` and `top` on a real cluster: values equal the served ones, and replicas equal
//! those that the real controller writes.

use std::time::Duration;

use apimachinery::quantity::parse_milli;
use serde_json::{Value, json};

use super::gpus::SOME_WITHOUT;
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::workload::{
    autoscaler, behavior, condition, deployment, external, of_deployment, on_object, on_pods,
    target,
};
use crate::program::{Program, eventually, ok_if, output};

/// The number of nodes with four GPUs, enough for all Deployments at their maximum. With
/// fewer, sums would end.
const NODES: usize = 12;

/// A short window, so that values settle soon.
const CONFIG: &str = "gpu: {window: 4s}\n";

/// Loads shared by the GPUs of each Deployment, in percent.
const LOADS: [u32; 3] = [190, 270, 40];

/// The output of a command, with an administrator's rights.
fn says(lab: &Lab, arguments: &[&str]) -> String {
    let mut command = Program::plugin(arguments);
    command.arg("--kubeconfig").arg(lab.plane.kubeconfig());
    output(&mut command).unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
}

fn json_of(lab: &Lab, arguments: &[&str]) -> Value {
    let said = says(lab, &[arguments, &["-o", "json"]].concat());
    serde_json::from_str(&said).unwrap()
}

/// Autoscalers with every kind of metric and target, each with the name of its Deployment.
fn rows() -> Vec<(String, Value)> {
    let (mean, sum) = ("gpu_memory_utilization", "gpu_memory_utilization_sum");
    let object =
        |name, metric, kind, number| on_object(metric, &of_deployment(name), &target(kind, number));
    let total = |kind, number| external(sum, &target(kind, number));
    let failing = on_pods("no_such_metric", "5");
    let mut over = on_pods(mean, "60");
    over["pods"]["metric"]["selector"] = json!({"matchLabels": {"window": "8s"}});
    let rows = [
        ("pods", json!([on_pods(mean, "33300m")])),
        ("window", json!([over])),
        ("value", json!([object("value", mean, "Value", "60")])),
        (
            "average",
            json!([object("average", sum, "AverageValue", "60")]),
        ),
        ("external", json!([total("AverageValue", "700")])),
        ("external-value", json!([total("Value", "1300")])),
        (
            "two",
            json!([on_pods(mean, "70"), total("AverageValue", "900")]),
        ),
        ("failing", json!([on_pods(mean, "50"), failing])),
        ("failing-alone", json!([failing])),
        (SOME_WITHOUT, json!([on_pods(mean, "50")])),
    ];
    rows.map(|(name, metrics)| (name.to_owned(), metrics))
        .into()
}

/// A decision and what it was made of: replicas, the values of metrics in thousandths, and
/// the replicas that are wanted, if any.
#[derive(Debug, PartialEq)]
struct Decision {
    current: i64,
    values: Vec<i64>,
    desired: Option<i64>,
}

/// The controller's decision, in the status of an autoscaler.
fn written(lab: &Lab, name: &str) -> Option<Decision> {
    let hpa = lab.plane.object(&["hpa", name, "-n", TEAM]);
    let status = &hpa["status"];
    let active = condition(&hpa, "ScalingActive")?;
    let values = status["currentMetrics"].as_array().into_iter().flatten();
    let value = |metric: &Value| {
        let mut kinds = ["pods", "object", "external"].iter();
        let current = kinds.find_map(|kind| metric.get(kind)?.get("current"))?;
        let value = current.get("averageValue").or(current.get("value"))?;
        parse_milli(value.as_str()?)
    };
    let desired = status["desiredReplicas"].as_i64();
    Some(Decision {
        current: status["currentReplicas"].as_i64()?,
        values: values.filter_map(value).collect(),
        desired: desired.filter(|_| active["status"] == "True"),
    })
}

/// The output of `explain hpa`.
pub(super) fn explained(lab: &Lab, name: &str) -> Option<Value> {
    let mut command = Program::plugin(["explain", "hpa", "-o", "json", "--kubeconfig"]);
    command
        .arg(lab.plane.kubeconfig())
        .arg(format!("{TEAM}/{name}"));
    serde_json::from_str(&Program::run(command).stdout).ok()
}

/// The decision that `explain` computes.
fn computed(lab: &Lab, name: &str) -> Option<Decision> {
    let said = explained(lab, name)?;
    let trace = &said["trace"];
    let value = |metric: &Value| {
        let asks = &metric["outcome"];
        let mean = asks["pods"]["mean"]["mean"].as_str();
        parse_milli(mean.or(asks["total"]["shown"].as_str())?)
    };
    let metrics = trace["metrics"].as_array()?.iter();
    Some(Decision {
        current: trace["current"].as_i64()?,
        values: metrics.filter_map(value).collect(),
        desired: said["desiredReplicas"].as_i64(),
    })
}

/// While replicas and values change, the two may have read different ones.
fn await_agreement(lab: &Lab, name: &str) {
    let what = format!("the controller's replicas of {name}");
    let agreed = eventually(&what, PATIENCE, || {
        let before = written(lab, name);
        let computed = computed(lab, name);
        let after = written(lab, name);
        let rests = |it: &Decision| it.desired.is_none_or(|desired| desired == it.current);
        let is_at_rest = before == after && after.as_ref().is_some_and(rests);
        match is_at_rest && computed == after {
            true => Ok(after),
            false => Err(format!("{computed:?} between {before:?} and {after:?}")),
        }
    });
    println!("{name}: {agreed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_computes_the_replicas_that_the_controller_writes() {
    let mut lab = Lab::with(NODES).await;
    lab.reconfigure(CONFIG);
    let rows = rows();
    for (name, metrics) in &rows {
        let labels = json!({"app": APP, "deployment": name});
        // A pod that requests a GPU and has no reading has an unknown value, and so have
        // all groups that contain it.
        let limits = match name.as_str() {
            SOME_WITHOUT => json!({}),
            _ => json!({"nvidia.com/gpu": 1}),
        };
        let of = (TEAM, name.as_str());
        lab.plane.apply(&deployment(of, 2, &labels, &limits));
        let behavior = behavior(Duration::ZERO);
        lab.plane
            .apply(&autoscaler(of, name, 4, metrics, &behavior));
    }
    for load in LOADS {
        lab.gpus.share(load);
        for (name, _) in &rows {
            await_agreement(&lab, name);
        }
    }
    lab.plane.run(&format!("delete hpa,deploy --all -n {TEAM}"));
    lab.deploy(1);
    explained_values_are_those_served(&lab);
    top_shows_who_holds_gpus(&lab);
}

fn explained_values_are_those_served(lab: &Lab) {
    lab.gpus.work(60);
    let path = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/deployments.apps/{APP}/gpu_memory_utilization"
    );
    lab.await_values(&path, 1, "60");
    let name = format!("{TEAM}/{APP}");
    let of = [
        "explain",
        "deployments.apps",
        &name,
        "gpu_memory_utilization",
    ];
    let said = json_of(lab, &of);
    let blocks = said["blocks"].as_array().unwrap();
    let value = blocks.iter().find_map(|it| it["facts"].get("value"));
    assert_eq!(value, Some(&json!(60.0)), "{said}");
    let is_of_devices = |it: &&Value| it["caption"] == "Devices of the value";
    let devices = blocks.iter().find(is_of_devices).unwrap();
    assert!(devices["rows"][0]["uuid"].is_string(), "{said}");
}

fn top_shows_who_holds_gpus(lab: &Lab) {
    eventually("a row for each pod", PATIENCE, || {
        let said = json_of(lab, &["top", "pods", "-n", TEAM]);
        let rows = &said["blocks"][0]["rows"];
        let mut busy = rows.as_array().unwrap().iter();
        let is_busy = |row: &Value| row["memoryUtilization"] == json!(60.0);
        ok_if(rows[0].is_object() && busy.all(is_busy), &said)
    });
    let workloads = says(lab, &["top", "workloads", "-A", "--sum"]);
    for said in [&*format!("deployments.apps/{APP}"), "SUM"] {
        assert!(workloads.contains(said), "{workloads}");
    }
    // The pod requests a GPU, and no GPU is reported for it.
    lab.plane.apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waiting", "namespace": TEAM},
        "spec": {"containers": [{
            "name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}},
        }]},
    }));
    lab.autoscale(1, &json!([on_pods("gpu_memory_utilization", "50")]));
    eventually("a row without values, and an autoscaler", PATIENCE, || {
        let pods = says(lab, &["top", "pods", "-n", TEAM]);
        let row = pods.lines().find(|line| line.starts_with("waiting "));
        let cells: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
        let is_unknown = cells.len() == 13 && cells[1..].iter().all(|cell| *cell == "–");
        let reason = pods.contains("team/waiting");
        ok_if(
            is_unknown && reason && pods.contains("60/50 1 → 1 (max 1)"),
            &pods,
        )
    });
    let gpus = says(lab, &["top", "gpus"]);
    assert!(gpus.contains("active") && gpus.contains("GPU-"), "{gpus}");
}
