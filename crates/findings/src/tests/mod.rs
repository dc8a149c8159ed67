//! For each code, one object with the fault and one without.

mod around;
mod configuration;
mod hpa;
mod registration;
mod starts;

use std::borrow::Cow;

use ::hpa::Hpa;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::names::nearest;
use super::{Finding, codes};

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn codes_of(findings: impl IntoIterator<Item = Finding>) -> Vec<Cow<'static, str>> {
    findings.into_iter().map(|it| it.code).collect()
}

fn metric(kind: &str, name: &str, labels: &Value, target: &Value) -> Value {
    let identifier = json!({"name": name, "selector": {"matchLabels": labels}});
    let described = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"});
    let mut source = json!({"metric": identifier, "target": target});
    if kind == "Object" {
        source["describedObject"] = described;
    }
    json!({"type": kind, kind.to_lowercase(): source})
}

fn average(value: &str) -> Value {
    json!({"type": "AverageValue", "averageValue": value})
}

fn pods(target: &str) -> Value {
    metric(
        "Pods",
        "gpu_memory_utilization",
        &json!({}),
        &average(target),
    )
}

/// An HPA of `Deployment infer` with these metrics; `over` replaces fields of
/// its spec.
fn autoscaler(metrics: &Value, over: &Value) -> Hpa {
    failing(metrics, over, &Value::Null)
}

/// The same with a condition in its status.
fn failing(metrics: &Value, over: &Value, condition: &Value) -> Hpa {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
        "minReplicas": 1, "maxReplicas": 4, "metrics": metrics,
    });
    for (key, value) in over.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let conditions: Vec<&Value> = Some(condition)
        .filter(|it| !it.is_null())
        .into_iter()
        .collect();
    let object: HorizontalPodAutoscaler = read(json!({
        "metadata": {"name": "infer", "namespace": "team"}, "spec": spec,
        "status": {"desiredReplicas": 2, "currentMetrics": null, "conditions": conditions},
    }));
    Hpa::try_from(&object).unwrap()
}

fn offline(metrics: &Value, over: &Value) -> Vec<Cow<'static, str>> {
    codes_of(super::hpa::check(&autoscaler(metrics, over), None, None))
}

#[test]
fn letters_that_are_swapped_count_once() {
    for (written, meant, letters) in [
        ("window", "window", 0),
        ("windw", "window", 1),
        ("modle", "model", 1),
        ("Window", "window", 0),
    ] {
        assert_eq!(nearest(written, [meant], letters), Some(meant), "{written}");
    }
    assert_eq!(nearest("", ["abc"], 2), None);
    assert_eq!(nearest("abd", ["xyz", "abc"], 1), Some("abc"));
    assert_eq!(nearest("abd", ["xyz"], 2), None);
}

#[test]
fn every_page_of_a_code_has_the_same_parts() {
    assert!(codes::ALL.len() > 20);
    for code in codes::ALL {
        for part in [
            "Why it matters",
            "How to fix it",
            "How to see that it is gone",
        ] {
            let heading = format!("\n## {part}\n");
            assert!(code.page.contains(&heading), "{}: {part}", code.id);
        }
        assert_eq!(codes::find(&code.id.to_lowercase()).unwrap().id, code.id);
    }
}
