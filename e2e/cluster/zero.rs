//! Scaling to zero and from zero, by metrics that exist without pods of the workload
//! (`HPAScaleToZero`, on by default since Kubernetes 1.37).

use serde_json::{Value, json};

use super::check::{of_code, verdicts};
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::workload::{autoscaler, condition, external, on_object, on_pods, target};
use crate::program::{eventually, ok_if};

/// A Deployment that always has a pod. The load of its GPU counts as the length of a
/// queue.
const QUEUE: &str = "queue";

/// The name of its container, and so of the Service that the rule finds.
const SERVICE: &str = "main";

const CONFIG: &str = r#"
gpu: {window: 10s, freshness: 20s}
rules:
- seriesQuery: DCGM_FI_DEV_MEM_COPY_UTIL{exported_pod=~"queue-.*"}
  name: {as: queue_length}
  resources: &labels
    overrides:
      exported_namespace: {resource: namespace}
      exported_container: {resource: service}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>,exported_pod=~"queue-.*"}) by (<<.GroupBy>>)
externalRules:
- seriesQuery: DCGM_FI_DEV_MEM_COPY_UTIL{exported_pod=~"queue-.*"}
  name: {as: waiting_requests}
  resources: *labels
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>,exported_pod=~"queue-.*"}) by (<<.GroupBy>>)
"#;

/// The autoscaler of the service, from 0 to 2 replicas.
fn from_zero(metrics: &Value) -> Value {
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    let mut hpa = autoscaler((TEAM, APP), APP, 2, metrics, &behavior);
    hpa["spec"]["minReplicas"] = 0.into();
    hpa
}

/// Waits until the controller has written this condition.
fn await_condition(lab: &Lab, type_: &str, status: &str, reason: &str) {
    eventually(&format!("{type_} {status} {reason}"), PATIENCE, || {
        let name = format!("horizontalpodautoscalers/{APP}");
        let hpa = lab.plane.found(TEAM, &name);
        let found = condition(&hpa, type_);
        let is_written = found.is_some_and(|it| it["status"] == status && it["reason"] == reason);
        ok_if(is_written, &hpa["status"])
    });
}

/// The severities of GM509.
fn gm509(lab: &Lab) -> Vec<Value> {
    let found = of_code(lab.plane.kubeconfig(), "GM509").into_iter();
    found.map(|mut it| it["severity"].take()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_at_zero_scales_up_by_metrics_that_need_no_pods() {
    let mut lab = Lab::start().await;
    lab.deploy_as(QUEUE, 1);
    let held = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/deployments.apps/{QUEUE}/gpu_held_count"
    );
    lab.await_values(&held, 1, "1");
    lab.reconfigure(CONFIG);
    lab.plane.apply(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": TEAM},
        "spec": {"selector": {"app": APP}, "ports": [{"port": 80}]},
    }));
    lab.deploy(1);
    let service = json!({"apiVersion": "v1", "kind": "Service", "name": SERVICE});
    let of_service = on_object("queue_length", &service, &target("Value", "20"));
    let external = external("waiting_requests", &target("AverageValue", "20"));
    for metric in [&of_service, &external] {
        wakes_and_sleeps_again(&lab, metric);
    }
    zero_by_hand_stays(&lab, &external);
}

fn wakes_and_sleeps_again(lab: &Lab, metric: &Value) {
    lab.gpus.work(0);
    // A metric of pods beside it has no value at zero and prevents no scale-up.
    let both = json!([metric, on_pods("gpu_memory_utilization", "50")]);
    lab.plane.apply(&from_zero(&both));
    lab.await_replicas(0);
    await_condition(lab, "ScaledToZero", "True", "ScaledToZero");
    assert_eq!(gm509(lab), [""; 0]);
    assert_eq!(verdicts(lab), ["Scaled to zero, waits for load"]);
    lab.gpus.work(40);
    lab.await_replicas(2);
    await_condition(lab, "ScaledToZero", "False", "NotScaledToZero");
    lab.gpus.work(0);
    lab.await_replicas(0);
    end(lab);
}

/// A zero that the controller did not set switches scaling off.
fn zero_by_hand_stays(lab: &Lab, metric: &Value) {
    lab.gpus.work(40);
    lab.plane.apply(&from_zero(&json!([metric])));
    lab.await_replicas(2);
    scale(lab, 0);
    await_condition(lab, "ScalingActive", "False", "ScalingDisabled");
    assert_eq!(verdicts(lab), ["Switched off: its target has 0 replicas"]);
    assert_eq!(gm509(lab), ["warning"]);
    assert_eq!(lab.replicas(), 0);
    end(lab);
}

fn scale(lab: &Lab, replicas: u32) {
    let replicas = format!("--replicas={replicas}");
    lab.plane
        .run(&format!("scale deployment {APP} -n {TEAM} {replicas}"));
}

/// Deletes the autoscaler and returns to one replica.
fn end(lab: &Lab) {
    lab.plane.kubectl(&["delete", "hpa", APP, "-n", TEAM]);
    scale(lab, 1);
}
