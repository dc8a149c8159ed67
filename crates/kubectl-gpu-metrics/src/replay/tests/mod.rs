//! Demands whose replicas can be computed by hand, and tests of reading data and
//! manifests.

mod closed_forms;
mod reading;
mod sweeping;

use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use apimachinery::time::Timestamp;
use gpu_metrics::policy::Policy;
use hpa::{ControllerFlags, Hpa};

use super::{Figures, Past, Plan, Tick, Trial};

const START: Timestamp = Timestamp::from_secs(1_700_000_100);

/// Time from the order of a replica to its first work.
const READY_AFTER: Duration = Duration::from_secs(20);

/// A Pods metric with this target, in percent of each GPU.
pub(crate) fn pods(target: &str) -> Value {
    json!({"type": "Pods", "pods": {
        "metric": {"name": "gpu_memory_utilization"},
        "target": {"type": "AverageValue", "averageValue": target},
    }})
}

fn object(metrics: &Value, behavior: &Value) -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "infer", "namespace": "team"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
            "minReplicas": 1, "maxReplicas": 30, "metrics": [metrics], "behavior": behavior,
        },
    }))
    .unwrap()
}

pub(crate) fn plan(metrics: &Value, behavior: &Value) -> Plan {
    let hpa = Hpa::try_from(&object(metrics, behavior)).unwrap();
    Plan::read(hpa, "default").unwrap()
}

/// A demand for each second, and the initial pods.
pub(crate) fn past(pods: u32, demand: impl IntoIterator<Item = Option<f64>>) -> Past {
    Past::of_demands(
        START,
        Duration::from_secs(1),
        pods,
        demand.into_iter().collect(),
    )
}

/// The window of four readings, four seconds: at a sync it contains only the current load.
static SETTINGS: LazyLock<(Policy, ControllerFlags)> = LazyLock::new(|| {
    let policy = Policy {
        window: Some(Duration::from_secs(4)),
        ..Policy::default()
    };
    (policy, ControllerFlags::of_version(35))
});

fn run(plan: &Plan, past: &Past) -> Vec<Tick> {
    trial(plan, past).run()
}

fn trial<'t>(plan: &'t Plan, past: &'t Past) -> Trial<'t> {
    let (policy, flags) = &*SETTINGS;
    Trial {
        past,
        plan,
        policy,
        flags,
        ready_after: READY_AFTER,
    }
}

/// Changes of the replicas, including the first, by seconds since the start.
fn sizes(ticks: &[Tick]) -> Vec<(u64, i32)> {
    let runs = ticks.chunk_by(|one, next| one.replicas == next.replicas);
    let firsts = runs.map(|run| (run[0].at.since(START).as_secs(), run[0].replicas));
    firsts.collect()
}

fn measure(plan: &Plan, past: &Past, ticks: &[Tick]) -> Figures {
    trial(plan, past).figures(ticks)
}
