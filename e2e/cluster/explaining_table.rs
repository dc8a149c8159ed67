//! A set of autoscalers: every kind of served metric and target, two metrics at once,
//! pods without values, pods that wait for a node, tolerances, policies and
//! stabilisation.

use serde_json::{Value, json};

use super::gpus::SOME_WITHOUT;
use super::lab::{APP, Lab, TEAM};
use super::workload::{autoscaler, deployment, on_pods};

/// A resource that pods of some Deployments wait for, because the node has little of it.
const SCARCE: &str = "example.com/slot";

/// An autoscaler and its Deployment, of the same name.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    metrics: Value,
    behavior: Value,
}

fn row(name: &str, metrics: &Value, behavior: Value) -> Row {
    let name = name.to_owned();
    let metrics = metrics.clone();
    Row {
        name,
        metrics,
        behavior,
    }
}

fn target(kind: &str, number: &str) -> Value {
    let mut key = kind.to_owned();
    key[..1].make_ascii_lowercase();
    json!({"type": kind, key: number})
}

/// A metric of the Deployment of that name.
fn object(name: &str, metric: &str, kind: &str, number: &str) -> Value {
    json!({"type": "Object", "object": {
        "metric": {"name": metric},
        "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "target": target(kind, number),
    }})
}

fn external(kind: &str, number: &str) -> Value {
    json!({"type": "External", "external": {
        "metric": {"name": "gpu_memory_utilization_sum"}, "target": target(kind, number),
    }})
}

fn on_gpus(number: &str) -> Value {
    on_pods("gpu_memory_utilization", number)
}

fn over(window: &str, mut metric: Value) -> Value {
    metric["pods"]["metric"]["selector"] = json!({"matchLabels": {"window": window}});
    metric
}

/// Rules without delays, unless others are given.
fn rules(up: Value, down: Value) -> Value {
    let at_once = json!({
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 900, "periodSeconds": 1}],
    });
    let merged = |mut rules: Value, own: Value| {
        for (key, value) in own.as_object().into_iter().flatten() {
            rules[key] = value.clone();
        }
        rules
    };
    json!({"scaleUp": merged(at_once.clone(), up), "scaleDown": merged(at_once, down)})
}

fn policies(kind: &str, value: u32, period: u32) -> Value {
    json!({"policies": [{"type": kind, "value": value, "periodSeconds": period}]})
}

/// All autoscalers.
pub(super) fn rows() -> Vec<Row> {
    let (mean, sum) = ("gpu_memory_utilization", "gpu_memory_utilization_sum");
    let none = || rules(json!({}), json!({}));
    let stable = |secs: u32| json!({"stabilizationWindowSeconds": secs});
    let some = |what: &str| format!("{SOME_WITHOUT}-{what}");
    let both = json!({
        "stabilizationWindowSeconds": 6, "selectPolicy": "Min",
        "policies": [
            {"type": "Pods", "value": 2, "periodSeconds": 9},
            {"type": "Percent", "value": 50, "periodSeconds": 12},
        ],
    });
    let failing = on_pods("no_such_metric", "5");
    let one = |metric: Value| json!([metric]);
    vec![
        row("pods", &one(on_gpus("50")), none()),
        row("pods-fraction", &one(on_gpus("33300m")), none()),
        row("pods-window", &one(over("8s", on_gpus("60"))), none()),
        row("value", &one(object("value", mean, "Value", "60")), none()),
        row(
            "value-low",
            &one(object("value-low", mean, "Value", "25")),
            none(),
        ),
        row(
            "average",
            &one(object("average", sum, "AverageValue", "60")),
            none(),
        ),
        row("external", &one(external("AverageValue", "900")), none()),
        row("external-value", &one(external("Value", "1700")), none()),
        row(
            "two",
            &json!([on_gpus("70"), external("AverageValue", "1100")]),
            none(),
        ),
        row(
            "two-values",
            &json!([object("two-values", mean, "Value", "80"), on_gpus("45")]),
            none(),
        ),
        row("failing", &json!([on_gpus("50"), failing]), none()),
        row("failing-alone", &one(failing.clone()), none()),
        row(&some("pods"), &one(on_gpus("50")), none()),
        row(
            &some("average"),
            &one(object(&some("average"), sum, "AverageValue", "40")),
            none(),
        ),
        row("pending-pods", &one(on_gpus("40")), none()),
        row(
            "pending-value",
            &one(object("pending-value", mean, "Value", "40")),
            none(),
        ),
        row(
            "tolerant-up",
            &one(on_gpus("60")),
            rules(json!({"tolerance": "500m"}), json!({})),
        ),
        row(
            "tolerant-down",
            &one(on_gpus("60")),
            rules(json!({}), json!({"tolerance": "400m"})),
        ),
        row(
            "policy-pods",
            &one(on_gpus("40")),
            rules(policies("Pods", 1, 9), policies("Pods", 1, 12)),
        ),
        row(
            "policy-percent",
            &one(on_gpus("40")),
            rules(both.clone(), both),
        ),
        row(
            "never-down",
            &one(on_gpus("50")),
            rules(json!({}), json!({"selectPolicy": "Disabled"})),
        ),
        row(
            "stable-down",
            &one(on_gpus("50")),
            rules(json!({}), stable(15)),
        ),
        row(
            "stable-up",
            &one(external("AverageValue", "800")),
            rules(stable(10), json!({})),
        ),
        row("plain", &one(on_gpus("50")), Value::Null),
    ]
}

impl Row {
    /// The Deployment.
    pub(super) fn deployment(&self) -> Value {
        let labels = json!({"app": APP, "deployment": self.name});
        // A pod that requests a GPU and has no reading has an unknown value. All groups
        // that contain the pod are then unknown too.
        let mut limits = match self.name.starts_with(SOME_WITHOUT) {
            true => json!({}),
            false => json!({"nvidia.com/gpu": 1}),
        };
        if self.name.starts_with("pending") {
            limits[SCARCE] = json!(1);
        }
        deployment((TEAM, &self.name), 2, &labels, &limits)
    }

    /// The autoscaler.
    pub(super) fn autoscaler(&self) -> Value {
        let (of, metrics, behavior) = ((TEAM, &*self.name), &self.metrics, &self.behavior);
        autoscaler(of, &self.name, 4, metrics, behavior)
    }

    /// The number of its metrics.
    pub(super) fn metrics(&self) -> usize {
        self.metrics.as_array().map_or(0, Vec::len)
    }
}

/// Gives every node five units of the scarce resource.
pub(super) fn make_scarce(lab: &Lab) {
    let size = json!({"capacity": {SCARCE: "5"}, "allocatable": {SCARCE: "5"}});
    let patch = json!({"status": size}).to_string();
    let names = lab.plane.kubectl(&["get", "nodes", "-o", "name"]);
    for node in names.split_whitespace() {
        lab.plane.kubectl(&[
            "patch",
            node,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ]);
    }
}
