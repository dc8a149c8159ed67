//! Faults that are easily confused, made on a cluster: each has its finding, and the
//! remedy of the finding corrects the fault.

use std::path::Path;

use serde_json::{Value, json};

use super::asking::{ApiClient, Reply, identity_of};
use super::check::{check, found};
use super::lab::{APP, CONFIG, HOME, Lab, NAME, PATIENCE, TEAM};
use super::workload::{autoscaler, deployment, on_pods};
use crate::manual::run;
use crate::program::{eventually, ok_if};

const PODS: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team/pods/*/gpu_memory_utilization";

/// The Secret of `manifests/secret.yaml`.
const SECRET: &str = "gpu-metrics-apiserver-certificates";

/// A finding of `check`.
struct Found {
    message: String,
    remedy: String,
    /// The printed command, if there is one.
    command: Option<String>,
}

fn findings(kubeconfig: &Path, code: &str, object: &str) -> Result<Found, String> {
    let (_, said) = check(kubeconfig);
    let mut all = said["findings"].as_array().unwrap().iter();
    let found = all.find(|it| it["code"] == code && it["object"] == object);
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    found
        .map(|it| Found {
            message: text(&it["message"]),
            remedy: text(&it["remedy"]),
            command: it["command"].as_str().map(str::to_owned),
        })
        .ok_or_else(|| said.to_string())
}

/// Waits for a finding with these words, and returns its remedy.
fn await_found(lab: &Lab, code: &str, object: &str, words: &str) -> String {
    await_finding(lab, code, object, words).remedy
}

fn await_finding(lab: &Lab, code: &str, object: &str, words: &str) -> Found {
    eventually(&format!("{code} with {words:?}"), PATIENCE, || {
        let found = findings(lab.plane.kubeconfig(), code, object)?;
        match found.message.contains(words) {
            true => Ok(found),
            false => Err(found.message),
        }
    })
}

/// Waits for a finding with these words, runs its command unchanged, and waits for the end
/// of the finding.
fn mend(lab: &Lab, code: &str, object: &str, words: &str) {
    let found = await_finding(lab, code, object, words);
    run(lab.plane.kubeconfig(), &found.command.expect("a command"));
    await_gone(lab, code, object);
}

fn await_gone(lab: &Lab, code: &str, object: &str) {
    eventually(&format!("the end of {code}"), PATIENCE, || {
        match findings(lab.plane.kubeconfig(), code, object) {
            Err(_) => Ok(()),
            Ok(found) => Err(found.message),
        }
    });
}

/// Runs the command in a text, up to its end or a semicolon.
fn apply_printed(lab: &Lab, text: &str) {
    let begin = text.find("kubectl ").unwrap_or_else(|| panic!("{text}"));
    let command = text[begin..].split(';').next().unwrap();
    println!("as printed: {command}");
    run(lab.plane.kubeconfig(), command);
}

/// The last line of the server's log with these words.
fn logged(lab: &Lab, words: &str) -> String {
    let server = lab.server.as_ref().unwrap();
    server.find_in_stderr(words, PATIENCE, |said| {
        let line = said.lines().rev().find(|line| line.contains(words))?;
        Some(line.to_owned())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_remedy_of_each_finding_corrects_the_fault() {
    let mut lab = Lab::start().await;
    lab.deploy(2);
    lab.gpus.work(40);
    lab.await_values(PODS, 2, "40");
    no_fault(&lab);
    a_refused_configuration(&lab).await;
    a_lost_secret(&lab);
    no_certificate_and_no_server(&mut lab);
    pods_without_gpus(&lab);
    no_reviews(&lab).await;
    commands_of_findings(&lab);
}

/// Except for metrics that are served only after some time, and GPUs that the nodes do not
/// have, which the lab itself causes.
fn no_fault(lab: &Lab) {
    lab.autoscale(2, &json!([on_pods("gpu_memory_utilization", "50")]));
    eventually("a cluster that is well", PATIENCE, || {
        let (code, said) = check(lab.plane.kubeconfig());
        let is_well = code == Some(0) && said["success"] == true && said["skipped"] == json!([]);
        let mut codes = found(&said).into_iter().map(|(code, _)| code);
        ok_if(
            is_well && codes.all(|code| ["GM501", "GM513"].contains(&&*code)),
            &format!("{code:?} {said}"),
        )
    });
    lab.plane.kubectl(&["delete", "hpa", APP, "-n", TEAM]);
}

async fn a_refused_configuration(lab: &Lab) {
    lab.write_config("gpu: {window: soon}\n");
    let file = format!("File {}", lab.config().display());
    await_found(lab, "GM603", &file, "config.yaml:1:");
    let api_client = ApiClient::direct(lab.port, Some(identity_of(lab.plane.kubeconfig())));
    let metrics = api_client.get("/metrics").await;
    let counted = r#"gpu_metrics_apiserver_findings{code="GM603",severity="error"} 1.0"#;
    assert!(metrics.has(counted), "{metrics:?}");
    lab.write_config(CONFIG);
    await_gone(lab, "GM603", &file);
}

fn delete_secret(lab: &Lab) {
    lab.plane.kubectl(&["delete", "secret", SECRET, "-n", HOME]);
}

fn a_lost_secret(lab: &Lab) {
    delete_secret(lab);
    let object = "serving certificate";
    let remedy = await_found(
        lab,
        "GM105",
        object,
        &format!("Secret {HOME}/{SECRET} does not exist"),
    );
    apply_printed(lab, &remedy);
    await_gone(lab, "GM105", object);
}

fn no_certificate_and_no_server(lab: &mut Lab) {
    let object = "APIService v1beta2.custom.metrics.k8s.io";
    let _ = lab.end_server("TERM");
    let remedy = await_found(lab, "GM102", object, "connection refused");
    assert!(remedy.contains("no process listens"), "{remedy}");
    delete_secret(lab);
    lab.start_server();
    let remedy = await_found(lab, "GM102", object, "tls: access denied");
    assert!(remedy.contains("its log names the Secret"), "{remedy}");
    let words = format!("kubectl -n {HOME} create secret generic {SECRET}");
    apply_printed(lab, &logged(lab, &words));
    await_gone(lab, "GM102", object);
}

fn pods_without_gpus(lab: &Lab) {
    let of = (TEAM, "web");
    // Pods with the label `app` get GPUs.
    let deploy = |labels: Value, limits: Value| {
        let mut web = deployment(of, 1, &labels, &limits);
        web["spec"]["selector"]["matchLabels"] = json!({"web": "web"});
        lab.plane.apply(&web);
    };
    deploy(json!({"web": "web"}), json!({}));
    let metrics = json!([on_pods("gpu_memory_utilization", "50")]);
    lab.plane
        .apply(&autoscaler(of, "web", 2, &metrics, &Value::Null));
    let object = format!("HorizontalPodAutoscaler {TEAM}/web");
    let remedy = await_found(lab, "GM515", &object, "the pods request no nvidia.com/gpu");
    let words = "limits of the pods' containers";
    assert!(remedy.contains(words), "{remedy}");
    let labels = json!({"web": "web", "app": APP});
    deploy(labels, json!({"nvidia.com/gpu": 1}));
    await_gone(lab, "GM515", &object);
}

/// Each right of the server and of the HPA controller, and the registration.
fn commands_of_findings(lab: &Lab) {
    let account = format!("ServiceAccount {HOME}/{NAME}");
    for (kind, role, namespace, words) in [
        ("clusterrolebinding", "inventory", HOME, "may not"),
        (
            "rolebinding",
            "authentication-reader",
            "kube-system",
            "configmaps",
        ),
        (
            "clusterrolebinding",
            "registration",
            HOME,
            "get, patch apiservices",
        ),
        ("rolebinding", "certificates", HOME, "get, patch secrets"),
    ] {
        let binding = format!("delete {kind} {NAME}:{role} -n {namespace}");
        lab.plane.run(&binding);
        mend(lab, "GM201", &account, words);
    }
    for name in [
        "system:controller:horizontal-pod-autoscaler",
        "gpu-metrics-apiserver:autoscaler",
    ] {
        lab.plane.run(&format!("delete clusterrolebinding {name}"));
    }
    let controller = "ServiceAccount kube-system/horizontal-pod-autoscaler";
    mend(lab, "GM202", controller, "may not");
}

async fn no_reviews(lab: &Lab) {
    let binding = format!("{NAME}:auth-delegator");
    lab.plane
        .run(&format!("delete clusterrolebinding {binding}"));
    // The autoscalers continue.
    let ready = ApiClient::direct(lab.port, None);
    await_ready(&ready, "[-]reviews failed: reason withheld").await;
    let account = format!("ServiceAccount {HOME}/{NAME}");
    await_found(lab, "GM201", &account, "may not");
    let words = format!("ClusterRoleBinding {binding} is missing");
    apply_printed(lab, &logged(lab, &words));
    await_gone(lab, "GM201", &account);
    await_ready(&ready, "[+]reviews ok").await;
}

/// Waits until `/readyz` has this line.
async fn await_ready(api_client: &ApiClient, line: &str) {
    let has = |reply: &Reply| reply.body.contains(line);
    api_client.until("/readyz?verbose", has).await;
}
