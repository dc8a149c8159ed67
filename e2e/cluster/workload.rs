//! Deployments and their autoscalers, as objects.

use serde_json::{Value, json};

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
