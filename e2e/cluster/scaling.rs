//! The autoscaler of a real kube-controller-manager scales a Deployment on this
//! server's metrics.

use std::time::Duration;

use serde_json::{Value, json};

use super::check::verdicts;
use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::workload::{condition, on_pods};
use crate::program::{eventually, ok_if};

/// The sync period of autoscalers. It is below the default of 15 s, because the tests read
/// decisions from events and do not wait for `desiredReplicas > currentReplicas`.
pub(super) const SYNC: Duration = Duration::from_secs(2);

/// A running autoscaler, and its decisions.
#[derive(Debug)]
pub(super) struct Autoscaler<'a> {
    lab: &'a Lab,
    uid: Value,
}

impl<'a> Autoscaler<'a> {
    /// From 1 to `most` replicas of the service on one metric.
    pub(super) fn start(lab: &'a Lab, most: u32, metric: &Value) -> Self {
        lab.autoscale(most, &json!([metric]));
        let mut scaler = Self {
            lab,
            uid: Value::Null,
        };
        scaler.uid = scaler.object()["metadata"]["uid"].take();
        scaler
    }

    fn object(&self) -> Value {
        let name = format!("horizontalpodautoscalers/{APP}");
        self.lab.plane.found(TEAM, &name)
    }

    /// Waits until the autoscaler has read a value. Earlier decisions are complete then.
    pub(super) fn await_seen(&self, value: &str) {
        eventually(&format!("an autoscaler that saw {value}"), PATIENCE, || {
            let status = self.object()["status"].take();
            let seen = status["currentMetrics"].to_string();
            let wanted = format!(r#"alue":"{value}""#);
            ok_if(seen.contains(&wanted), &status)
        });
    }

    /// Waits until its condition `ScalingActive` has this status. Returns the
    /// message.
    pub(super) fn await_active(&self, active: &str) -> String {
        eventually(&format!("ScalingActive={active}"), PATIENCE, || {
            let hpa = self.object();
            let found = condition(&hpa, "ScalingActive").filter(|it| it["status"] == active);
            let message = found.and_then(|it| Some(it["message"].as_str()?.to_owned()));
            message.ok_or_else(|| hpa["status"].to_string())
        })
    }

    /// The sizes that the autoscaler has set, in order.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut said = self.lab.plane.found(TEAM, "events");
        let events = said["items"].as_array_mut().unwrap();
        // The name ends with the time in hexadecimal nanoseconds.
        events.sort_by_key(|event| event["metadata"]["name"].to_string());
        let ours = events.iter().filter(|event| {
            event["involvedObject"]["uid"] == self.uid && event["reason"] == "SuccessfulRescale"
        });
        ours.filter_map(|event| {
            let rest = event["message"].as_str()?.strip_prefix("New size: ")?;
            rest.split(';').next()?.parse().ok()
        })
        .collect()
    }

    /// Waits until the autoscaler has set these sizes and stays at the last.
    pub(super) fn await_sizes(&self, wanted: &[u64]) {
        self.await_sizes_that(&format!("{wanted:?}"), |sizes| sizes == wanted);
        self.lab.await_replicas(wanted[wanted.len() - 1]);
    }

    /// Waits until the sizes that the autoscaler has set are as wanted.
    pub(super) fn await_sizes_that(&self, what: &str, wanted: impl Fn(&[u64]) -> bool) {
        eventually(&format!("sizes {what}"), PATIENCE, || {
            let sizes = self.sizes();
            wanted(&sizes)
                .then_some(())
                .ok_or_else(|| format!("{sizes:?}: {}", self.object()["status"]))
        });
    }

    /// Deletes the autoscaler. The service keeps its size.
    pub(super) fn end(self) {
        self.lab.plane.kubectl(&["delete", "hpa", APP, "-n", TEAM]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s110_a_busy_service_scales_to_its_maximum_and_an_idle_one_to_one() {
    let lab = Lab::start().await;
    lab.deploy(1);
    let path = format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/deployments.apps/{APP}/gpu_held_count"
    );
    let one = |said: &str| said.contains(r#""value":"1""#);
    lab.await_answer(&path, one);
    let scaler = Autoscaler::start(&lab, 4, &on_pods("gpu_memory_utilization", "50"));
    scaler.await_seen("0");
    lab.gpus.work(90);
    lab.await_replicas(4);
    scaler.await_seen("90");
    let held = ["At its maximum: has 4, wants 8"];
    eventually("the verdict", PATIENCE, || {
        let found = verdicts(&lab);
        ok_if(found == held, &found)
    });
    lab.gpus.work(0);
    lab.await_replicas(1);
    lab.await_answer(&path, one);
    scaler.end();
}
