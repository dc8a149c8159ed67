//! `check` on a correct cluster, and on one with deliberate faults.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::asking::{ApiClient, Reply, identity_of};
use super::install::manifest;
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::workload::{autoscaler, on_pods};
use crate::program::{Program, eventually};

/// Findings that the lab itself causes: metrics that are served only after some time, and
/// GPUs that its nodes do not have.
const OF_THE_LAB: [&str; 2] = ["GM501", "GM513"];

const FINDINGS: &str = "/apis/custom.metrics.k8s.io/v1beta2/findings";

/// The output of `check -A`, and its exit code.
pub(crate) fn check(kubeconfig: &Path) -> (Option<i32>, Value) {
    check_with(kubeconfig, &[])
}

/// Like [`check`], with flags.
pub(crate) fn check_with(kubeconfig: &Path, flags: &[&str]) -> (Option<i32>, Value) {
    let mut command = Program::command(["check", "-A", "-o", "json", "--kubeconfig"]);
    command.arg(kubeconfig).args(flags);
    let end = Program::run(command);
    end.assert_orderly();
    let said = serde_json::from_str(&end.stdout);
    (
        end.code,
        said.unwrap_or_else(|error| panic!("{error}: {end:?}")),
    )
}

/// Code and object of each finding.
fn found(said: &Value) -> BTreeSet<(String, String)> {
    let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
    let findings = said["findings"].as_array().unwrap().iter();
    findings
        .map(|it| (text(it, "code"), text(it, "object")))
        .collect()
}

fn autoscale(lab: &Lab, name: &str, deployment: &str, metrics: &Value) {
    lab.plane.apply(&autoscaler(
        (TEAM, name),
        deployment,
        2,
        metrics,
        &Value::Null,
    ));
}

fn plant(lab: &Lab) {
    for name in ["high", "twice"] {
        lab.deploy_as(name, 1);
    }
    let high = json!([
        on_pods("gpu_memory_utilization", "95"),
        on_pods("gpu_memory_utilisation", "50")
    ]);
    autoscale(lab, "high", "high", &high);
    let fine = json!([on_pods("gpu_memory_utilization", "50")]);
    autoscale(lab, "twice", "twice", &fine);
    autoscale(lab, "again", "twice", &fine);
    autoscale(lab, "nothing", "absent", &fine);
    // A pod that the valid HPA's selector matches.
    lab.plane.apply(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": TEAM, "labels": {"app": APP, "deployment": APP}},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }));
    lab.plane.kubectl(&[
        "delete",
        "clusterrolebinding",
        "gpu-metrics-apiserver:inventory",
    ]);
    let elsewhere =
        json!({"spec": {"service": {"namespace": "monitoring", "name": "prometheus-adapter"}}});
    let patch = format!("--patch={elsewhere}");
    lab.plane.kubectl(&[
        "patch",
        "apiservice",
        "v1beta1.external.metrics.k8s.io",
        "--type=merge",
        &patch,
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_finds_the_planted_faults_and_nothing_on_a_correct_cluster() {
    let lab = Lab::start().await;
    lab.deploy(2);
    lab.gpus.work(40);
    lab.autoscale(2, &json!([on_pods("gpu_memory_utilization", "50")]));
    let admin = lab.plane.kubeconfig().to_owned();
    eventually("a cluster that is well", PATIENCE, || {
        let (code, said) = check(&admin);
        let is_well = code == Some(0) && said["success"] == true && said["skipped"] == json!([]);
        let errors = found(&said)
            .into_iter()
            .filter(|(code, _)| !OF_THE_LAB.contains(&&**code));
        (is_well && errors.count() == 0)
            .then_some(())
            .ok_or(format!("{code:?} {said}"))
    });
    plant(&lab);
    let of = |code: &str, kind: &str, name: &str| (code.to_owned(), format!("{kind} {name}"));
    let hpa =
        |code: &str, name: &str| of(code, "HorizontalPodAutoscaler", &format!("{TEAM}/{name}"));
    let external = "v1beta1.external.metrics.k8s.io";
    let wanted = BTreeSet::from([
        of("GM101", "APIService", external),
        of(
            "GM201",
            "ServiceAccount",
            "gpu-metrics/gpu-metrics-apiserver",
        ),
        hpa("GM504", "high"),
        hpa("GM512", "high"),
        hpa("GM507", "again"),
        hpa("GM507", "twice"),
        hpa("GM508", APP),
        hpa("GM514", "nothing"),
    ]);
    eventually("all faults", PATIENCE, || {
        let (code, said) = check(&admin);
        let found: BTreeSet<_> = found(&said)
            .into_iter()
            .filter(|(code, _)| !OF_THE_LAB.contains(&&**code))
            .collect();
        (code == Some(1) && found == wanted)
            .then_some(())
            .ok_or(format!("{code:?} {said}"))
    });
    let misspelt = check(&admin).1;
    assert!(
        found(&misspelt).contains(&hpa("GM501", "high")),
        "{misspelt}"
    );
    let nobody = lab.plane.user_kubeconfig("nobody", None);
    let (code, said) = check(&nobody);
    assert_eq!(
        (code, &said["success"], &said["findings"]),
        (Some(3), &json!(false), &json!([])),
        "{said}"
    );
    let skipped = said["skipped"].to_string();
    assert!(
        skipped.contains("horizontalpodautoscalers")
            && skipped.contains("subjectaccessreviews")
            && skipped.contains("what exporters report"),
        "{skipped}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_of_the_server_are_served_to_authorized_users_and_counted() {
    let mut lab = Lab::start().await;
    let admin = lab.plane.kubeconfig().to_owned();
    let rights = manifest("optional/autoscalers.yaml");
    lab.plane.kubectl(&["apply", "-f", &rights]);
    lab.deploy(2);
    lab.gpus.work(40);
    autoscale(
        &lab,
        "high",
        APP,
        &json!([on_pods("gpu_memory_utilization", "95")]),
    );
    // The server checks soon after its start, and then every five minutes.
    let _ = lab.end_server("TERM");
    lab.start_server();
    lab.await_available();
    let values = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/*");
    lab.await_answer(&format!("{values}/gpu_memory_utilization"), |said| {
        said.matches(r#""value":"40""#).count() == 2
    });
    let silent = ("GM408".to_owned(), "dcgm-exporter".to_owned());
    eventually("exporters that answer", PATIENCE, || {
        let said = check(&admin).1;
        let is_told = found(&said).contains(&silent);
        (!is_told).then_some(()).ok_or_else(|| said.to_string())
    });
    lab.gpus.silence(0);
    eventually("a silent exporter", PATIENCE, || {
        let said = check(&admin).1;
        let is_told = found(&said).contains(&silent);
        is_told.then_some(()).ok_or_else(|| said.to_string())
    });
    let reader = lab.plane.user_kubeconfig("reader", None);
    let read = || lab.plane.kubectl_as(&reader, &["get", "--raw", FINDINGS]);
    assert!(read().unwrap_err().contains("(Forbidden)"));
    let name = json!({"name": "findings"});
    lab.plane.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name,
        "rules": [{"apiGroups": ["custom.metrics.k8s.io"], "resources": ["findings"], "verbs": ["list"]}],
    }));
    let bind = ["--clusterrole=findings", "--user=reader"];
    lab.plane
        .kubectl(&[&["create", "clusterrolebinding", "findings"], &bind[..]].concat());
    eventually("the findings for a reader", PATIENCE, || read().map(|_| ()));
    let said = read().unwrap();
    assert!(said.contains("GM408"), "{said}");
    for pod in lab.gpus.holders() {
        assert!(!said.contains(&pod), "{said}");
    }
    let api_client = ApiClient::direct(lab.port, Some(identity_of(&admin)));
    let wanted = [
        r#"gpu_metrics_apiserver_findings{code="GM408",severity="error"} 1.0"#,
        r#"gpu_metrics_apiserver_findings{code="GM504",severity="error"} 1.0"#,
        r#"gpu_metrics_apiserver_findings{code="GM507",severity="error"} 0.0"#,
    ];
    let all = |reply: &Reply| match reply {
        Reply::Body(metrics) => wanted
            .iter()
            .all(|line| metrics.contains(line))
            .then_some(()),
        _ => None,
    };
    api_client.until("/metrics", all).await;
}
