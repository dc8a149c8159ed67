//! Faults that are easily confused, made on a cluster: each has its finding, and the
//! remedy of the finding corrects the fault.

use serde_json::{Value, json};

use super::check::{check, of_code};
use super::lab::{APP, CONFIG, HOME, Lab, NAME, PATIENCE, PODS, SECRET, TEAM};
use super::workload::{autoscaler, deployment, on_pods};
use crate::asking::{ApiClient, Reply, identity_of};
use crate::manual::run;
use crate::program::{eventually, found_if, ok_if};

fn finding(lab: &Lab, code: &str, object: &str) -> Result<Value, String> {
    let found = of_code(lab.plane.kubeconfig(), code);
    // Several APIServices with one fault are one finding.
    let first = |it: &&Value| text(it, "object").split(", ").next() == Some(object);
    let one = found.iter().find(first).cloned();
    one.ok_or_else(|| format!("{found:?}"))
}

/// A text of a finding.
fn text<'f>(finding: &'f Value, key: &str) -> &'f str {
    finding[key].as_str().unwrap()
}

/// Waits for a finding with these words, and returns its remedy.
fn await_found(lab: &Lab, code: &str, object: &str, words: &str) -> String {
    text(&await_finding(lab, code, object, words), "remedy").to_owned()
}

pub(super) fn await_finding(lab: &Lab, code: &str, object: &str, words: &str) -> Value {
    eventually(&format!("{code} with {words:?}"), PATIENCE, || {
        let found = finding(lab, code, object)?;
        found_if(found, |it| text(it, "message").contains(words))
    })
}

/// Waits for a finding with these words, runs its command unchanged, and waits for the end
/// of the finding.
fn mend(lab: &Lab, code: &str, object: &str, words: &str) {
    let found = await_finding(lab, code, object, words);
    run(lab.plane.kubeconfig(), text(&found, "command"));
    await_gone(lab, code, object);
}

fn await_gone(lab: &Lab, code: &str, object: &str) {
    eventually(&format!("the end of {code}"), PATIENCE, || {
        let found = finding(lab, code, object);
        ok_if(found.is_err(), &found)
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_remedy_of_each_finding_corrects_the_fault() {
    let mut lab = Lab::start().await;
    lab.deploy(2);
    lab.gpus.work(40);
    lab.await_values(PODS, 2, "40");
    no_fault(&lab);
    a_refused_configuration(&lab).await;
    the_right_to_the_secret_is_lost(&lab);
    no_certificate_and_no_server(&mut lab);
    pods_without_gpus(&lab);
    replicas_that_are_stopped(&lab);
    no_reviews(&lab).await;
    commands_of_findings(&lab);
}

/// Except for metrics that are served only after some time.
fn no_fault(lab: &Lab) {
    lab.autoscale(2, &json!([on_pods("gpu_memory_utilization", "50")]));
    eventually("a cluster that is well", PATIENCE, || {
        let (code, said) = check(lab.plane.kubeconfig());
        let only = said.iter().all(|it| it["code"] == "GM501");
        ok_if(code == Some(0) && only, &format!("{code:?} {said:?}"))
    });
    lab.plane.kubectl(&["delete", "hpa", APP, "-n", TEAM]);
}

async fn a_refused_configuration(lab: &Lab) {
    lab.write_config("gpu: {window: soon}\n");
    let file = format!("File {}", lab.config().display());
    await_found(lab, "GM603", &file, "config.yaml:1:");
    let api_client = ApiClient::direct(lab.port, Some(identity_of(lab.plane.kubeconfig())));
    let metrics = api_client.get("/metrics").await;
    let counted = r#"gpu_metrics_apiserver_findings{code="GM603",severity="error"} 1"#;
    assert!(metrics.has(counted), "{metrics:?}");
    lab.write_config(CONFIG);
    await_gone(lab, "GM603", &file);
    // A valid change: the same process serves again.
    lab.write_config(&CONFIG.replace("10s", "11s"));
    let server = lab.server.as_ref().unwrap();
    server.await_stderr("the server starts again");
    lab.await_values(PODS, 2, "40");
    lab.await_available();
}

fn unbind(lab: &Lab, kind: &str, role: &str, namespace: &str) {
    let binding = format!("delete {kind} {NAME}:{role} -n {namespace}");
    lab.plane.run(&binding);
}

fn the_right_to_the_secret_is_lost(lab: &Lab) {
    let (object, account) = (
        "serving certificate",
        format!("ServiceAccount {HOME}/{NAME}"),
    );
    unbind(lab, "rolebinding", "certificates", HOME);
    await_found(lab, "GM105", object, &format!("Secret {HOME}/{SECRET}: "));
    mend(lab, "GM201", &account, "get, patch, create secrets");
    await_gone(lab, "GM105", object);
}

fn no_certificate_and_no_server(lab: &mut Lab) {
    let object = "APIService v1beta2.custom.metrics.k8s.io";
    let _ = lab.end_server("TERM");
    let remedy = await_found(lab, "GM102", object, "connection refused");
    assert!(remedy.contains("no process listens"), "{remedy}");
    unbind(lab, "rolebinding", "certificates", HOME);
    lab.start_server();
    let remedy = await_found(lab, "GM102", object, "tls: access denied");
    assert!(remedy.contains("its log names the right"), "{remedy}");
    let server = lab.server.as_ref().unwrap();
    server.await_stderr("run the command that check prints for GM201");
    let account = format!("ServiceAccount {HOME}/{NAME}");
    mend(lab, "GM201", &account, "get, patch, create secrets");
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
    let remedy = await_found(lab, "GM515", &object, "the pods request no GPU");
    let words = format!("explain hpa {TEAM}/web");
    assert!(remedy.contains(&words), "{remedy}");
    let labels = json!({"web": "web", "app": APP});
    deploy(labels, json!({"nvidia.com/gpu": 1}));
    await_gone(lab, "GM515", &object);
}

/// A maximum, a quota and a target at zero stop an autoscaler under load.
fn replicas_that_are_stopped(lab: &Lab) {
    let (hpa, target) = (
        format!("HorizontalPodAutoscaler {TEAM}/{APP}"),
        format!("Deployment {TEAM}/{APP}"),
    );
    let metrics = json!([on_pods("gpu_memory_utilization", "30")]);
    lab.gpus.work(90);
    lab.autoscale(2, &metrics);
    let remedy = await_found(lab, "GM516", &hpa, "At its maximum: has 2, wants ");
    assert!(remedy.contains("raise maxReplicas"), "{remedy}");
    lab.plane.apply(&json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": TEAM}, "spec": {"hard": {"pods": "2"}},
    }));
    lab.autoscale(4, &metrics);
    let remedy = await_found(lab, "GM517", &target, "quota: few");
    assert!(remedy.starts_with("raise the quota"), "{remedy}");
    let delete = format!("delete resourcequota few -n {TEAM}");
    lab.plane.run(&delete);
    await_gone(lab, "GM517", &target);
    // A change of the scale during a rescale is overwritten: the controller repeats its own
    // after a conflict.
    lab.await_replicas(4);
    let scale = |replicas: u32| {
        let scale = format!("scale deployment {APP} -n {TEAM} --replicas={replicas}");
        lab.plane.run(&scale);
    };
    scale(0);
    await_found(lab, "GM509", &hpa, "Switched off");
    lab.plane.kubectl(&["delete", "hpa", APP, "-n", TEAM]);
    scale(2);
    lab.gpus.work(40);
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
    ] {
        unbind(lab, kind, role, namespace);
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
    let server = lab.server.as_ref().unwrap();
    server.await_stderr("a review failed, and its request is refused");
    mend(lab, "GM201", &account, "may not");
    await_ready(&ready, "[+]reviews ok").await;
}

/// Waits until `/readyz` has this line.
async fn await_ready(api_client: &ApiClient, line: &str) {
    let has = |reply: &Reply| reply.body.contains(line);
    api_client.until("/readyz?verbose", has).await;
}

/// A rule whose series do not exist, searches and queries that Prometheus refuses, and
/// resource rules whose series do not name the nodes.
const BROKEN_RULES: &str = "
gpu: {window: 10s, freshness: 20s}
rules:
- {seriesQuery: 'missing_total', metricsQuery: 'missing_total{<<.LabelMatchers>>}'}
- {seriesQuery: '{job=', metricsQuery: 'up{<<.LabelMatchers>>}'}
externalRules:
- seriesQuery: up
  resources: {namespaced: false}
  name: {as: refused}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}'
resourceRules:
  cpu: &usage
    containerQuery: 'up{<<.LabelMatchers>>}'
    nodeQuery: 'up{<<.LabelMatchers>>}'
    resources:
      overrides: {node: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}
  memory: *usage
";

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_without_values_is_a_finding_with_its_query() {
    let mut lab = Lab::start().await;
    lab.reconfigure(BROKEN_RULES);
    let api_client = ApiClient::direct(lab.port, Some(identity_of(lab.plane.kubeconfig())));
    let external = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{TEAM}/refused");
    api_client.until_code(&external, 500).await;
    let nodes = api_client.get("/apis/metrics.k8s.io/v1beta1/nodes").await;
    assert!(nodes.has(r#""items":[]"#), "{nodes:?}");
    let faults = [
        ("rules[0].seriesQuery", "no such series", "missing_total"),
        ("rules[1].seriesQuery", "does not answer", "{job="),
        (
            "externalRules[0].metricsQuery",
            "does not answer",
            "sum(<<.Series>>{<<.LabelMatchers>>}",
        ),
        (
            "resourceRules.cpu.nodeQuery",
            "one of the nodes in its label node",
            "up{<<.LabelMatchers>>}",
        ),
        (
            "resourceRules.memory.nodeQuery",
            "one of the nodes in its label node",
            "up{<<.LabelMatchers>>}",
        ),
    ];
    for (key, fault, query) in faults {
        let found = await_finding(&lab, "GM604", key, fault);
        let message = text(&found, "message");
        assert!(
            message.ends_with(&format!("; the query is {query}")),
            "{message}"
        );
    }
    let metrics = api_client.get("/metrics").await;
    let counted = r#"gpu_metrics_apiserver_findings{code="GM604",severity="warning"} 5"#;
    assert!(metrics.has(counted), "{metrics:?}");
    api_client.until_code(&external, 500).await;
    let log = lab.server.as_ref().unwrap().stderr();
    for (key, ..) in faults {
        assert_eq!(log.matches(&format!("{key}: ")).count(), 1, "{key}: {log}");
    }
    lab.reconfigure(CONFIG);
    await_gone(&lab, "GM604", "rules[0].seriesQuery");
}
