//! `explain` and `top` on a real cluster.

use serde_json::{Value, json};

use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::workload::on_pods;
use crate::program::{Program, eventually, ok_if, output};

/// A short window, so that values settle soon.
const CONFIG: &str = "gpu: {window: 4s}\n";

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

/// The verdicts of `explain hpa`.
pub(super) fn verdicts(lab: &Lab, name: &str) -> Vec<String> {
    let document = json_of(lab, &["explain", "hpa", &format!("{TEAM}/{name}")]);
    let blocks = document["blocks"].as_array().unwrap().iter();
    let verdicts = blocks.filter(|block| block["kind"] == "verdict");
    let texts = verdicts.map(|block| block["text"].as_str().unwrap().to_owned());
    texts.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_top_show_what_the_server_and_the_controller_say() {
    let mut lab = Lab::start().await;
    lab.reconfigure(CONFIG);
    lab.deploy(1);
    explained_values_are_those_served(&lab);
    top_shows_who_holds_gpus(&lab);
    // 60 % of one GPU against a target of 50, and at most one replica.
    eventually("the verdict", PATIENCE, || {
        let found = verdicts(&lab, APP);
        ok_if(found == ["At its maximum: has 1, wants 2"], &found)
    });
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
    eventually("a row without values", PATIENCE, || {
        let pods = says(lab, &["top", "pods", "-n", TEAM]);
        let row = pods.lines().find(|line| line.starts_with("waiting "));
        let cells: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
        let is_unknown = cells.len() == 7 && cells[1..].iter().all(|cell| *cell == "–");
        let reason = pods.contains("team/waiting");
        ok_if(is_unknown && reason, &pods)
    });
    let gpus = says(lab, &["top", "gpus"]);
    assert!(gpus.contains("active") && gpus.contains("GPU-"), "{gpus}");
}
