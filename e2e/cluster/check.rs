//! `check` of a cluster, and the findings that the server serves.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::install::manifest;
use super::lab::{APP, Lab, PATIENCE, PODS, TEAM};
use super::workload::on_pods;
use crate::asking::{ApiClient, Reply, identity_of};
use crate::program::{Program, eventually, found_if, output};

const FINDINGS: &str = "/apis/custom.metrics.k8s.io/v1beta2/findings";

/// The exit code of `check -A`, and its findings. What was skipped has no code.
pub(super) fn check(kubeconfig: &Path) -> (Option<i32>, Vec<Value>) {
    let mut command = Program::plugin(["check", "-A", "-o", "json", "--kubeconfig"]);
    command.arg(kubeconfig);
    let end = Program::run(command);
    end.assert_orderly();
    let said: Value = serde_json::from_str(&end.stdout).unwrap_or_default();
    let blocks = said["blocks"].as_array();
    let blocks = blocks.unwrap_or_else(|| panic!("{end:?}")).iter();
    let findings = blocks.filter_map(|block| block["findings"].as_array());
    (end.code, findings.flatten().cloned().collect())
}

/// The findings of a code by `check -A`, also those that follow from others.
pub(super) fn of_code(kubeconfig: &Path, code: &str) -> Vec<Value> {
    let mut findings = check(kubeconfig).1;
    let below = findings
        .iter()
        .filter_map(|it| it["consequences"].as_array());
    let below: Vec<Value> = below.flatten().cloned().collect();
    findings.extend(below);
    findings.retain(|it| it["code"] == code);
    findings
}

/// The verdicts of `explain hpa` on the service's autoscaler.
pub(super) fn verdicts(lab: &Lab) -> Vec<String> {
    let mut command = Program::plugin(["explain", "hpa", &format!("{TEAM}/{APP}")]);
    command.args(["-o", "json", "--kubeconfig"]);
    let said = output(command.arg(lab.plane.kubeconfig())).unwrap();
    let document: Value = serde_json::from_str(&said).unwrap();
    let blocks = document["blocks"].as_array().unwrap().iter();
    let verdicts = blocks.filter(|block| block["kind"] == "verdict");
    let texts = verdicts.map(|block| block["text"].as_str().unwrap().to_owned());
    texts.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_of_the_server_are_served_to_authorized_users_and_counted() {
    let mut lab = Lab::start().await;
    let admin = lab.plane.kubeconfig().to_owned();
    let rights = manifest("optional/autoscalers.yaml");
    lab.plane.kubectl(&["apply", "-f", &rights]);
    lab.deploy(2);
    lab.gpus.work(40);
    let high = json!([on_pods("gpu_memory_utilization", "95")]);
    lab.autoscale_after(2, &high, Duration::from_secs(300));
    // The server checks soon after its start, and then every five minutes.
    let _ = lab.end_server("TERM");
    lab.start_server();
    lab.await_available();
    lab.await_values(PODS, 2, "40");
    let silent = || {
        let mut found = of_code(&admin, "GM408");
        found.retain(|it| it["object"] == "dcgm-exporter");
        found
    };
    eventually("exporters that answer", PATIENCE, || {
        found_if(silent(), Vec::is_empty)
    });
    lab.gpus.silence(0);
    eventually("a silent exporter", PATIENCE, || {
        found_if(silent(), |found| !found.is_empty())
    });
    let reader = lab.plane.user_kubeconfig("reader", None);
    let (code, said) = check(&reader);
    assert_eq!(code, Some(3), "{said:?}");
    assert!(said.iter().all(|it| it["code"] == ""), "{said:?}");
    let skipped = json!(said).to_string();
    for what in [
        "horizontalpodautoscalers",
        "subjectaccessreviews",
        "what exporters report",
    ] {
        assert!(skipped.contains(what), "{skipped}");
    }
    let read = || lab.plane.kubectl_as(&reader, &["get", "--raw", FINDINGS]);
    assert!(read().unwrap_err().contains("(Forbidden)"));
    let rule = json!({
        "apiGroups": ["custom.metrics.k8s.io"], "resources": ["findings"], "verbs": ["list"],
    });
    lab.plane.grant("findings", &rule, "--user=reader");
    eventually("the findings for a reader", PATIENCE, || read().map(|_| ()));
    let said = read().unwrap();
    assert!(said.contains("GM408"), "{said}");
    for pod in lab.gpus.holders() {
        assert!(!said.contains(&pod), "{said}");
    }
    let api_client = ApiClient::direct(lab.port, Some(identity_of(&admin)));
    let wanted = [
        r#"gpu_metrics_apiserver_findings{code="GM408",severity="error"} 1"#,
        r#"gpu_metrics_apiserver_findings{code="GM504",severity="error"} 1"#,
        r#"gpu_metrics_apiserver_findings{code="GM507",severity="error"} 0"#,
    ];
    let all = |reply: &Reply| wanted.iter().all(|line| reply.has(line));
    api_client.until("/metrics", all).await;
}
