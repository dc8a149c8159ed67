//! Causes that can be computed by hand, from two scrapes of an autoscaler from 1 to 4 replicas.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::*;
use crate::history::autoscaler::tests::batch;
use crate::tests::rows;

fn metric(kind: &str) -> Value {
    json!({"type": kind, kind.to_lowercase(): {
        "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"},
    }})
}

/// The numbers of a cell at both scrapes.
fn both(cell: &str) -> [(Timestamp, f64); 2] {
    let (first, second) = cell.split_once(' ').unwrap_or((cell, cell));
    let number = |seconds, text: &str| (Timestamp::from_secs(seconds), text.parse().unwrap());
    [number(1000, first), number(1015, second)]
}

/// Metric and asked replicas of the only change with what held it back, or why it is unknown.
#[test]
fn the_recorded_values_explain_a_change_or_do_not() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("causes.txt")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [
            metrics,
            ordered,
            desired,
            current,
            ready,
            values,
            rules,
            expected,
        ] = cells[..]
        else {
            panic!("{row}");
        };
        let behavior = match rules.starts_with("at once") {
            true => json!({"scaleDown": {"stabilizationWindowSeconds": 0}}),
            false => Value::Null,
        };
        let metrics: Vec<Value> = metrics.split(' ').map(metric).collect();
        let object: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": {"namespace": "ml", "name": "a"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                "minReplicas": 1, "maxReplicas": 4, "metrics": metrics, "behavior": behavior,
            },
        }))
        .unwrap();
        let limited = both(if rules.ends_with("limited") { "1" } else { "0" });
        let series = [
            ("kube_deployment_spec_replicas", both(ordered)),
            ("kube_deployment_status_replicas_ready", both(ready)),
            (
                "kube_horizontalpodautoscaler_status_desired_replicas",
                both(desired),
            ),
            (
                "kube_horizontalpodautoscaler_status_current_replicas",
                both(current),
            ),
            ("kube_horizontalpodautoscaler_status_condition", limited),
            (
                "kube_horizontalpodautoscaler_status_target_metric",
                both(values),
            ),
        ];
        let series = series.each_ref().map(|(name, samples)| {
            let of = match name.ends_with("target_metric") {
                true => ["m", "average"],
                false => ["", ""],
            };
            (*name, of, &samples[..])
        });
        let recorded = RecordedAutoscaler::of(&[batch(&series)]);
        let past = Past {
            hpa: Hpa::try_from(&object).unwrap(),
            flags: ControllerFlags::of_version(37),
            rescales: recorded.rescales(),
            ready: recorded.ready(),
            recorded,
        };
        let said = match past.decision(past.rescales[0]).cause {
            Ok(it) => format!("{} {} {} {}", it.metric, it.value, it.replicas, it.held),
            Err(why) => why.split_once("reconstructed: ").unwrap().1.to_owned(),
        };
        if said.trim() != expected {
            wrong.push(format!("{row}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
