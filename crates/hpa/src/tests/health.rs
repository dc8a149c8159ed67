//! The judgement of autoscalers by their status.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::super::Hpa;
use super::super::health::{Concern, Health};
use super::{cells, rows};

fn autoscaler(conditions: &str, replicas: &str, values: &str) -> Hpa {
    let usual = [
        ("AbleToScale", true),
        ("ScalingActive", true),
        ("ScalingLimited", false),
        ("ScaledToZero", true),
    ];
    let conditions = conditions.split_whitespace().zip(usual);
    let conditions = conditions.map(|(reason, (type_, usual))| {
        let unusual = reason.starts_with('!');
        let status = if usual != unusual { "True" } else { "False" };
        json!({
            "type": type_, "status": status, "reason": reason.trim_start_matches('!'),
            "message": "told",
        })
    });
    let values: Vec<&str> = values.split_whitespace().collect();
    let metric = |place: usize| {
        json!({"type": "Pods", "pods": {
            "metric": {"name": format!("m{place}")},
            "target": {"type": "AverageValue", "averageValue": "50"},
        }})
    };
    let value = |value: &&str| match *value {
        "-" => json!({"type": ""}),
        value => json!({"type": "Pods", "pods": {
            "metric": {"name": "m"}, "current": {"averageValue": value},
        }}),
    };
    let count: i32 = replicas.parse().unwrap();
    let object = json!({
        "metadata": {"name": "a"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "a"},
            "minReplicas": 1, "maxReplicas": 4,
            "metrics": (0..values.len().max(1)).map(metric).collect::<Vec<Value>>(),
            "behavior": {"scaleDown": {"selectPolicy": "Disabled"}},
        },
        "status": {
            "currentReplicas": count, "desiredReplicas": count,
            "conditions": conditions.collect::<Vec<Value>>(),
            "currentMetrics": values.iter().map(value).collect::<Vec<Value>>(),
        },
    });
    let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
    Hpa::try_from(&object).unwrap()
}

#[test]
fn the_written_conditions_decide_the_judgement() {
    for row in rows(include_str!("health.txt")) {
        let [conditions, replicas, values, said, concern] = cells(row);
        let health = Health::of(&autoscaler(conditions, replicas, values));
        assert_eq!(health.to_string(), said, "{row}");
        assert_eq!(format!("{:?}", health.concern()), concern, "{row}");
    }
    assert!(Concern::Fine < Concern::Warning && Concern::Warning < Concern::Error);
}
