//! `explain` and `top` on a real cluster: values equal the served ones, and replicas equal
//! those that the real controller writes.

use std::time::{Duration, Instant};

use cluster_state::clock;
use serde_json::{Value, json};

use super::explaining_sync::{Account, Computed, Written, written};
use super::explaining_table::{Row, make_scarce, rows};
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::workload::on_pods;
use crate::controlplane::Extent;
use crate::program::{Program, eventually};

/// The autoscalers' sync period; two dozen `explain` processes compute as often.
pub(super) const SYNC: Duration = Duration::from_secs(4);

/// The number of nodes with four GPUs, enough for all Deployments at their maximum. With
/// fewer, sums would end.
const NODES: usize = 26;

/// A short window, so that values settle soon.
const CONFIG: &str = "gpu: {window: 4s}\n";

/// Loads shared by the GPUs of each Deployment, in percent, and how long each lasts.
/// The first is not compared, because no explanation covers its beginning.
const LOADS: [u32; 5] = [70, 190, 95, 270, 40];
const HELD_FOR: Duration = Duration::from_secs(29);

/// How often the controllers' status is read.
const LOOK: Duration = Duration::from_millis(500);

/// The output of a command, with an administrator's rights.
fn says(lab: &Lab, arguments: &[&str]) -> String {
    let mut command = Program::command(arguments);
    command.arg("--kubeconfig").arg(lab.plane.kubeconfig());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn json_of(lab: &Lab, arguments: &[&str]) -> Value {
    let said = says(lab, &[arguments, &["-o", "json"]].concat());
    serde_json::from_str(&said).unwrap()
}

/// Follows an autoscaler with `--follow`.
fn follow(lab: &Lab, row: &Row) -> Program {
    let name = format!("{TEAM}/{}", row.name);
    let sync = format!("{}s", SYNC.as_secs());
    let mut command = Program::command(["explain", "hpa", &name, "--follow", "-o", "json"]);
    command.args(["--horizontal-pod-autoscaler-sync-period", &sync]);
    command.arg("--kubeconfig").arg(lab.plane.kubeconfig());
    Program::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_computes_the_replicas_that_the_controller_writes() {
    let extent = Extent::Cluster {
        autoscaler_sync: SYNC,
    };
    let mut lab = Lab::with(extent, NODES).await;
    lab.reconfigure(CONFIG);
    make_scarce(&lab);
    let rows = rows();
    let apply = |of: fn(&Row) -> Value| {
        let items: Vec<Value> = rows.iter().map(of).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        lab.plane.apply(&list);
    };
    apply(Row::deployment);
    lab.gpus.share_each(LOADS[0]);
    let held =
        format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/metrics/gpu_held_count");
    // Two pods each, except for Deployments in which some pods have no value.
    lab.await_answer(&held, |said| said.contains(r#""value":"4"#));
    apply(Row::autoscaler);
    let followed: Vec<Program> = rows.iter().map(|row| follow(&lab, row)).collect();
    let mut seen: Vec<Vec<Written>> = vec![Vec::new(); rows.len()];
    let mut begun = None;
    for load in LOADS {
        lab.gpus.share_each(load);
        let until = Instant::now() + HELD_FOR;
        while Instant::now() < until {
            for (seen, row) in seen.iter_mut().zip(written(&lab, &rows)) {
                seen.extend(row.filter(|row| seen.last().is_none_or(|last| !last.says(row))));
            }
            std::thread::sleep(LOOK);
        }
        begun.get_or_insert_with(clock::now);
    }
    let begun = begun.unwrap();
    let mut account = Account::default();
    for ((row, program), written) in rows.iter().zip(&followed).zip(&seen) {
        let said = program.await_stdout("computations", PATIENCE, |said| Some(said.to_owned()));
        let computed = Computed::all(&said);
        account.compare(row, &computed, written, begun);
    }
    drop(followed);
    println!("{account}");
    account.assert_agreement(rows.len());
    lab.plane
        .kubectl(&["delete", "hpa,deploy", "--all", "-n", TEAM]);
    lab.deploy(1);
    explained_values_are_those_served(&lab);
    top_shows_who_holds_gpus(&lab);
    a_rule_is_explained_by_its_query(&mut lab);
}

fn explained_values_are_those_served(lab: &Lab) {
    lab.gpus.work(60);
    let path = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/deployments.apps/{APP}/gpu_memory_utilization"
    );
    lab.await_answer(&path, |said| said.contains(r#""value":"60""#));
    let name = format!("{TEAM}/{APP}");
    let said = json_of(
        lab,
        &[
            "explain",
            "deployments.apps",
            &name,
            "gpu_memory_utilization",
        ],
    );
    assert_eq!(said["value"]["number"], json!(60.0), "{said}");
    assert!(!said["devices"].as_array().unwrap().is_empty(), "{said}");
    let text = says(
        lab,
        &["explain", "external", TEAM, "cluster_gpu_held_count"],
    );
    assert!(text.contains("counted and not listed"), "{text}");
    // A short name that is only in the cluster's discovery.
    let mut command = Program::command(["explain", "cm", &name, "gpu_held_count"]);
    command.arg("--kubeconfig").arg(lab.plane.kubeconfig());
    let end = Program::run(command);
    assert!(end.stderr.contains("for configmaps"), "{end:?}");
}

fn top_shows_who_holds_gpus(lab: &Lab) {
    eventually("a row for each pod", PATIENCE, || {
        let rows = json_of(lab, &["top", "pods", "-n", TEAM]);
        let rows = rows.as_array().unwrap().clone();
        let busy = rows
            .iter()
            .filter(|row| row["memoryUtilization"] == json!(60.0));
        let all = !rows.is_empty() && busy.count() == rows.len();
        all.then_some(()).ok_or_else(|| format!("{rows:?}"))
    });
    let workloads = says(lab, &["top", "workloads", "-A", "--sum"]);
    assert!(
        workloads.contains(&format!("deployments.apps/{APP}")),
        "{workloads}"
    );
    assert!(workloads.contains("SUM"), "{workloads}");
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
        let reason = pods.contains("pods waiting");
        (is_unknown && reason && pods.contains("60/50 → 1/1"))
            .then_some(())
            .ok_or(pods)
    });
    let gpus = says(lab, &["top", "gpus"]);
    assert!(gpus.contains("active") && gpus.contains("GPU-"), "{gpus}");
}

const RULE: &str = r#"
gpu: {window: 10s}
rules:
- seriesQuery: DCGM_FI_DEV_MEM_COPY_UTIL{exported_pod!=""}
  resources: {overrides: {exported_namespace: {resource: namespace}, exported_pod: {resource: pod}}}
  name: {as: busy}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
"#;

fn a_rule_is_explained_by_its_query(lab: &mut Lab) {
    lab.reconfigure(RULE);
    let name = format!("{TEAM}/{}", lab.gpus.holders()[0]);
    let path = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/*/busy");
    lab.await_answer(&path, |said| said.contains(r#""value":"60""#));
    let text = says(lab, &["explain", "po", &name, "busy"]);
    for said in [
        "Value 60",
        "rules[0]",
        "exported_pod!=\"\"",
        "by (exported_pod)",
        "1 samples",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let text = says(lab, &["explain", "metric", "busy"]);
    assert!(text.contains("namespaces, pods"), "{text}");
}
