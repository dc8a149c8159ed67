//! Specifications and pods in the form of the API.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use super::super::behavior::Behavior;
use super::super::printed::printed;
use super::{ControllerFlags, Hpa, Metric, MetricSource, MetricTarget, Milli, ScaledPod, policies};

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
    assert_eq!(
        printed(external.source.selector()),
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:\
         []LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},},}"
    );

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
        container: Some("main".to_owned()),
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
fn an_error_names_the_invalid_field() {
    let pods = |target: Value| {
        let pods = json!({"metric": {"name": "m"}, "target": target});
        spec(&json!({"metrics": [{"type": "Pods", "pods": pods}]}))
    };
    let cheese = json!({"metrics": [{"type": "CheddarCheese"}]});
    let policy = json!({"behavior": {"scaleUp": {"selectPolicy": "Most"}}});
    for (invalid, message) in [
        (
            pods(json!({"type": "Value", "value": "1"})),
            "spec.metrics[0].pods.target.averageValue is missing",
        ),
        (
            pods(json!({"type": "AverageValue", "averageValue": "0"})),
            "spec.metrics[0].pods.target.averageValue: \"0\" is no quantity above zero",
        ),
        (
            spec(&cheese),
            "spec.metrics[0].type: \"CheddarCheese\" is not known; Pods, Object, External, \
             Resource or ContainerResource",
        ),
        (
            spec(&policy),
            "spec.behavior.scaleUp.selectPolicy: \"Most\" is not known; Max, Min or Disabled",
        ),
    ] {
        assert_eq!(read(invalid).unwrap_err(), message);
    }
}

#[test]
fn requests_are_of_containers_sidecars_or_the_whole_pod() {
    let pod = json!({
        "metadata": {"name": "web-1"},
        "spec": {
            "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Ki"}}},
                {"name": "side", "resources": {"requests": {"cpu": "250m"}}},
            ],
            "initContainers": [
                {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1m"}}},
                {"name": "setup", "resources": {"requests": {"cpu": "9"}}},
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z",
            }],
        },
    });
    let read =
        |pod: &Value| ScaledPod::from(&serde_json::from_value::<api::Pod>(pod.clone()).unwrap());
    let plain = read(&pod);
    assert!(plain.is_running_and_ready());
    let mut whole = pod;
    whole["spec"]["resources"] = json!({"requests": {"cpu": "4"}});
    let whole = read(&whole);
    let none = "container other not found in Pod web-1";
    let missing = "missing request for memory in container side of Pod web-1";
    let missing_whole = "missing pod-level request for gpu in Pod web-1";
    for (pod, minor, resource, container, expected) in [
        (&plain, 35, "cpu", None, Ok(1251)),
        (&plain, 35, "cpu", Some("side"), Ok(250)),
        (&plain, 35, "memory", None, Err(missing.to_owned())),
        (&plain, 35, "cpu", Some("other"), Err(none.to_owned())),
        (&whole, 35, "cpu", None, Ok(4000)),
        (&whole, 35, "cpu", Some("main"), Ok(1000)),
        (&whole, 35, "gpu", None, Err(missing_whole.to_owned())),
        (&whole, 33, "cpu", None, Ok(1251)),
    ] {
        let flags = ControllerFlags::of_version(minor);
        assert_eq!(pod.request(resource, container, &flags), expected);
    }
}
