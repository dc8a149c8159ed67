//! The judgement of autoscalers by their status.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::super::Hpa;
use super::super::health::{Concern, Health};
use super::cells;

/// Reasons of the conditions `AbleToScale`, `ScalingActive` and `ScalingLimited` (`!` before
/// one: its status is not the usual one) | replicas | values | judgement and concern. The
/// bounds are 1 and 4, the targets 50.
const JUDGED: &str = "
                                                     | 2 |        | Not looked at by the controller yet | Fine
!FailedGetScale                                      | 2 |        | Cannot scale its target: told | Error
SucceededGetScale !ScalingDisabled                   | 0 | 20     | Switched off: its target has 0 replicas | Warning
SucceededGetScale !InvalidSelector                   | 2 | 20     | Cannot select its pods: told | Error
SucceededGetScale !AmbiguousSelector                 | 2 | 20     | Cannot select its pods: told | Error
SucceededGetScale !FailedGetPodsMetric               | 2 | 20     | Cannot read its metric: told | Error
SucceededRescale ValidMetricFound !TooManyReplicas   | 4 | 81     | At its maximum: has 4, wants 7 | Warning
ReadyForNewScale ValidMetricFound !TooManyReplicas   | 4 | 20 90  | At its maximum: has 4, wants 8 | Warning
ReadyForNewScale ValidMetricFound !TooManyReplicas   | 4 | 90 -   | At its maximum: has 4, wants more | Warning
ReadyForNewScale ValidMetricFound !TooManyReplicas   | 4 | 40     | At its maximum: has 4, wants more | Warning
ReadyForNewScale ValidMetricFound DesiredWithinRange | 2 | 50 -   | Cannot scale down: no value of m1 | Warning
ReadyForNewScale ValidMetricFound !ScaleUpLimit      | 2 | 99     | Scales up as fast as its rate allows | Fine
ReadyForNewScale ValidMetricFound !ScaleDownLimit    | 2 | 9      | Scaling down is disabled by selectPolicy | Fine
ScaleDownStabilized ValidMetricFound DesiredWithinRange | 2 | 9   | Held by its stabilisation window | Fine
ReadyForNewScale ValidMetricFound !TooFewReplicas    | 1 | 9      | At its minimum | Fine
ReadyForNewScale ValidMetricFound DesiredWithinRange ScaledToZero | 0 | 0 - | Scaled to zero, waits for load | Fine
ReadyForNewScale ValidMetricFound DesiredWithinRange !ScaledToZero | 0 | 0 | Follows its metrics | Fine
ReadyForNewScale ValidMetricFound DesiredWithinRange | 2 | 51     | Follows its metrics | Fine
";

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
    for row in JUDGED.lines().filter(|row| !row.is_empty()) {
        let [conditions, replicas, values, said, concern] = cells(row);
        let health = Health::of(&autoscaler(conditions, replicas, values));
        assert_eq!(health.to_string(), said, "{row}");
        assert_eq!(format!("{:?}", health.concern()), concern, "{row}");
    }
    assert!(Concern::Fine < Concern::Warning && Concern::Warning < Concern::Error);
}
