//! `check` of a cluster, and the findings that the server serves.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::asking::{ApiClient, Reply, identity_of};
use super::install::manifest;
use super::lab::{Lab, PATIENCE, TEAM};
use super::workload::on_pods;
use crate::program::{Program, eventually, ok_if};

const FINDINGS: &str = "/apis/custom.metrics.k8s.io/v1beta2/findings";

/// The output of `check -A`, and its exit code.
pub(super) fn check(kubeconfig: &Path) -> (Option<i32>, Value) {
    let mut command = Program::command(["check", "-A", "-o", "json", "--kubeconfig"]);
    command.arg(kubeconfig);
    let end = Program::run(command);
    end.assert_orderly();
    let said = serde_json::from_str(&end.stdout);
    (
        end.code,
        said.unwrap_or_else(|error| panic!("{error}: {end:?}")),
    )
}

/// Code and object of each finding.
pub(super) fn found(said: &Value) -> BTreeSet<(String, String)> {
    let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
    let findings = said["findings"].as_array().unwrap().iter();
    findings
        .map(|it| (text(it, "code"), text(it, "object")))
        .collect()
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
    let values = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/*");
    lab.await_values(&format!("{values}/gpu_memory_utilization"), 2, "40");
    let silent = ("GM408".to_owned(), "dcgm-exporter".to_owned());
    eventually("exporters that answer", PATIENCE, || {
        let said = check(&admin).1;
        let is_told = found(&said).contains(&silent);
        ok_if(!is_told, &said)
    });
    lab.gpus.silence(0);
    eventually("a silent exporter", PATIENCE, || {
        let said = check(&admin).1;
        let is_told = found(&said).contains(&silent);
        ok_if(is_told, &said)
    });
    let reader = lab.plane.user_kubeconfig("reader", None);
    let (code, said) = check(&reader);
    assert_eq!(
        (code, &said["success"], &said["findings"]),
        (Some(3), &json!(false), &json!([])),
        "{said}"
    );
    let skipped = said["skipped"].to_string();
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
        r#"gpu_metrics_apiserver_findings{code="GM408",severity="error"} 1.0"#,
        r#"gpu_metrics_apiserver_findings{code="GM504",severity="error"} 1.0"#,
        r#"gpu_metrics_apiserver_findings{code="GM507",severity="error"} 0.0"#,
    ];
    let all = |reply: &Reply| wanted.iter().all(|line| reply.has(line));
    api_client.until("/metrics", all).await;
}
