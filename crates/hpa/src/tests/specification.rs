//! Specifications and pods in the form of the API.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::super::behavior::Behavior;
use super::super::manifest;
use super::{Hpa, Metric, MetricSource, MetricTarget, Milli, policies, rows};

fn read(spec: Value) -> Result<Hpa, String> {
    let mut object = json!({"metadata": {"namespace": "team", "name": "web"}});
    object["spec"] = spec;
    let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
    Hpa::try_from(&object)
}

fn spec(more: &Value) -> Value {
    let mut spec =
        json!({"maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment", "name": "web"}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn metric(metric: Value) -> Result<Metric, String> {
    let mut more = json!({});
    more["metrics"] = Value::Array(vec![metric]);
    read(spec(&more)).map(|mut hpa| hpa.metrics.remove(0))
}

#[test]
fn unset_fields_have_the_defaults_of_the_api() {
    let hpa = read(spec(&json!({}))).unwrap();
    assert_eq!(hpa.to_string(), "HorizontalPodAutoscaler team/web");
    assert_eq!((hpa.min, hpa.max), (1, 9));
    assert_eq!(hpa.metrics[0].target, MetricTarget::Utilization(80));
    assert!(hpa.behavior.is_none());

    let hpa = read(spec(
        &json!({"behavior": {"scaleUp": {"tolerance": "50m"}}}),
    ))
    .unwrap();
    let mut defaults = Behavior::default();
    assert_eq!(defaults.up.policies, policies("4/15 100%/15"));
    assert_eq!(defaults.down.policies, policies("100%/15"));
    assert_eq!((defaults.up.window, defaults.down.window), (Some(0), None));
    defaults.up.tolerance = Some(0.05);
    assert_eq!(hpa.behavior, Some(defaults));
}

#[test]
fn tolerances_are_the_floats_of_the_controller() {
    for (text, tolerance) in [
        ("0", 0.0),
        ("100m", 0.1),
        ("0.1", 0.1),
        ("0.07", 0.07),
        ("0.0005", 0.0005),
        ("1", 1.0),
        ("15m", 0.015),
    ] {
        let behavior = json!({"behavior": {"scaleDown": {"tolerance": text}}});
        let behavior = read(spec(&behavior)).unwrap().behavior.unwrap();
        assert_eq!(behavior.down.tolerance, Some(tolerance), "{text}");
    }
}

#[test]
fn each_kind_of_metric_is_read() {
    let selector = json!({
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["x", "y"]}],
    });
    let external = metric(json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": selector},
        "target": {"type": "AverageValue", "averageValue": "1500m"},
    }}))
    .unwrap();
    assert_eq!(external.target, MetricTarget::AverageValue(Milli(1500)));
    assert_eq!(external.target.to_string(), "1.5 per pod");
    let labels = external.source.selector().unwrap().match_labels.as_ref();
    assert_eq!(labels.unwrap().len(), 2);

    let object = metric(json!({"type": "Object", "object": {
        "describedObject": {"kind": "Service", "name": "web"},
        "metric": {"name": "qps"},
        "target": {"type": "Value", "value": "2k"},
    }}));
    let target = MetricTarget::Value(Milli(2_000_000));
    assert_eq!(object.unwrap().target, target);

    let container = metric(json!({"type": "ContainerResource", "containerResource": {
        "name": "memory", "container": "main",
        "target": {"type": "AverageValue", "averageValue": "1Ki"},
    }}))
    .unwrap();
    let target = MetricTarget::AverageValue(Milli(1_024_000));
    assert_eq!(container.target, target);
    let source = MetricSource::Resource {
        resource: "memory".to_owned(),
    };
    assert_eq!(container.source, source);
}

#[test]
fn a_status_has_values_in_the_form_of_the_target_and_only_computed_zeros() {
    let of = |desired: i32, status: &str, reason: &str, current: Value| {
        let condition = json!({"type": "ScalingActive", "status": status, "reason": reason});
        let object = json!({
            "spec": spec(&json!({"metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"},
            }}]})),
            "status": {
                "desiredReplicas": desired, "currentMetrics": current, "conditions": [condition],
            },
        });
        let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
        let status = Hpa::try_from(&object).unwrap().status;
        (status.desired, status.values.first().copied().flatten())
    };
    let none = || json!([{"type": ""}]);
    let failed = "FailedGetPodsMetric";
    assert_eq!(of(0, "False", failed, none()), (None, None));
    assert_eq!(of(3, "False", failed, Value::Null), (Some(3), None));
    let disabled = of(0, "False", "ScalingDisabled", none());
    assert_eq!(disabled, (Some(0), None));
    let current =
        |kind: &str| json!([{"type": "Any", kind: {"current": {"averageValue": "62500m"}}}]);
    let valid = |current| of(0, "True", "ValidMetricFound", current);
    assert_eq!(valid(current("pods")), (Some(0), Some(62.5)));
    // The status is still of an earlier specification.
    assert_eq!(valid(current("external")), (Some(0), None));
    assert_eq!(read(spec(&json!({}))).unwrap().status.desired, None);
}

#[test]
fn an_error_names_the_field_that_kube_apiserver_rejects() {
    let manifest = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "labels": {"any": "thing"}, "creationTimestamp": null},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "minReplicas": 4, "maxReplicas": 4,
            "metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "m", "selector": {"matchLabels": {"window": "2m"}}},
                "target": {"type": "AverageValue", "averageValue": "50"},
            }}],
            "behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
        },
    });
    manifest::read(&manifest).unwrap();
    for row in rows(include_str!("refused.txt")) {
        let (change, said) = row.split_once(" | ").unwrap();
        let (at, value) = change.split_once(' ').unwrap();
        let at = at.replace("TARGET", "/spec/metrics/0/pods/target");
        let mut document = manifest.clone();
        *document.pointer_mut(&at).unwrap() = serde_json::from_str(value).unwrap();
        assert_eq!(manifest::read(&document).unwrap_err(), said, "{row}");
    }
}
