//! Deployments and their autoscalers, as objects.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::controlplane::ControlPlane;

/// A Deployment of pods with these labels and limits.
pub(crate) fn deployment(
    (namespace, name): (&str, &str),
    replicas: u32,
    labels: &Value,
    limits: &Value,
) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [
                    {"name": "main", "image": "none", "resources": {"limits": limits}},
                ]},
            },
        },
    })
}

/// An autoscaler of a Deployment, from 1 to `most` replicas.
pub(crate) fn autoscaler(
    (namespace, name): (&str, &str),
    deployment: &str,
    most: u32,
    metrics: &Value,
    behavior: &Value,
) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
            "minReplicas": 1, "maxReplicas": most,
            "metrics": metrics,
            "behavior": behavior,
        },
    })
}

/// A `Pods` metric with `AverageValue`.
pub(crate) fn on_pods(metric: &str, target: &str) -> Value {
    json!({
        "type": "Pods",
        "pods": {
            "metric": {"name": metric},
            "target": {"type": "AverageValue", "averageValue": target},
        },
    })
}

/// An `Object` metric.
pub(crate) fn on_object(metric: &str, described: &Value, target: &Value) -> Value {
    json!({"type": "Object", "object": {
        "metric": {"name": metric}, "describedObject": described, "target": target,
    }})
}

/// An `External` metric.
pub(crate) fn external(metric: &str, target: &Value) -> Value {
    json!({"type": "External", "external": {"metric": {"name": metric}, "target": target}})
}

/// `Value` or `AverageValue`, with a quantity.
pub(crate) fn target(kind: &str, number: &str) -> Value {
    let mut key = kind.to_owned();
    key[..1].make_ascii_lowercase();
    json!({"type": kind, key: number})
}

/// A reference to a Deployment.
pub(crate) fn of_deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name})
}

/// No limits, and this stabilisation.
pub(crate) fn behavior(stable: Duration) -> Value {
    json!({
        "scaleDown": {"stabilizationWindowSeconds": stable.as_secs()},
        "scaleUp": {
            "stabilizationWindowSeconds": stable.as_secs(),
            // A period of 15 s would count changes by an earlier autoscaler of the same name.
            "policies": [{"type": "Percent", "value": 900, "periodSeconds": 1}],
        },
    })
}

/// The arguments of a Deployment's container, except for flags of this machine: its paths,
/// ports and addresses.
pub(crate) fn arguments(deployment: &Value, here: &[&str]) -> Vec<String> {
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().unwrap().iter();
    args.map(|arg| arg.as_str().unwrap().to_owned())
        .filter(|arg| !here.iter().any(|flag| arg.starts_with(flag)))
        .collect()
}

/// What a Deployment's pods have: arguments, as in [`arguments`], the text of the
/// configuration, and a kubeconfig with the rights of the ServiceAccount.
pub(crate) struct Pod {
    pub(crate) arguments: Vec<String>,
    pub(crate) config: String,
    pub(crate) account: PathBuf,
}

impl Pod {
    pub(crate) fn of(plane: &ControlPlane, (namespace, name): (&str, &str), here: &[&str]) -> Self {
        let object = |kind: &str, name: &str| plane.object(&[kind, name, "-n", namespace]);
        let deployment = object("deployment", name);
        let spec = &deployment["spec"]["template"]["spec"];
        let volumes = spec["volumes"].as_array().unwrap().iter();
        let mut maps = volumes.filter_map(|volume| volume["configMap"]["name"].as_str());
        let config = object("configmap", maps.next().unwrap())["data"]["config.yaml"].take();
        let account = spec["serviceAccountName"].as_str().unwrap();
        Self {
            arguments: arguments(&deployment, here),
            config: config.as_str().unwrap().to_owned(),
            account: plane.service_account_kubeconfig(namespace, account),
        }
    }
}

/// The condition of a type in an object's status.
pub(crate) fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == kind)
}
