//! Explanations of autoscalers from 1 to 4 replicas with four pods and a target of 50.

use std::collections::BTreeMap;

use hpa::{ControllerFlags, Hpa, MetricsAnswer, ScaledPod, TargetScale};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::read::{Inputs, Reading};
use super::*;
use crate::document::text::{Layout, lines};
use crate::tests::transcript;

/// An autoscaler and what is read of it, as `explained.txt` describes.
fn decision(line: &str) -> Decision {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let conditions = cells[0].split(' ').filter_map(|it| it.split_once('='));
    let conditions = conditions.map(|(type_, reason)| {
        let status = if reason.starts_with('!') {
            "False"
        } else {
            "True"
        };
        let reason = reason.trim_start_matches('!');
        json!({"type": type_, "status": status, "reason": reason, "message": "told"})
    });
    let rules = cells
        .get(2)
        .map(|rules| serde_json::from_str::<Value>(rules).unwrap());
    let object: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": {"namespace": "ml", "name": "a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "minReplicas": 1, "maxReplicas": 4, "behavior": {"scaleDown": rules},
            "metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"},
            }}],
        },
        "status": {
            "currentReplicas": 4, "desiredReplicas": 4,
            "conditions": conditions.collect::<Vec<_>>(),
        },
    }))
    .unwrap();
    let mut inputs = Inputs {
        scale: TargetScale {
            spec_replicas: 4,
            status_replicas: 4,
        },
        pods: Vec::new(),
        starting: Vec::new(),
        answers: Vec::new(),
    };
    let mut values = BTreeMap::new();
    for (place, word) in cells[1].split(' ').enumerate() {
        let pod = json!({
            "metadata": {"name": format!("p{place}")}, "status": {"phase": "Running"},
        });
        let pod = ScaledPod::from(&serde_json::from_value::<Pod>(pod).unwrap());
        let starts = word.ends_with('*').then(|| pod.name.clone());
        inputs.starting.extend(starts);
        let value = word.trim_end_matches('*').parse::<i64>().ok();
        values.extend(value.map(|value| (pod.name.clone(), value * 1000)));
        inputs.pods.push(pod);
    }
    inputs.answers.push(match cells[1] {
        "gone gone gone gone" => MetricsAnswer::Failed("gone".to_owned()),
        _ => MetricsAnswer::Pods(values),
    });
    let reading = Reading {
        hpa: Hpa::try_from(&object).unwrap(),
        inputs: match cells[1] {
            "access denied" => Err("access denied".to_owned()),
            _ => Ok(inputs),
        },
        flags: ControllerFlags::of_version(hpa::NEWEST),
    };
    Decision::new(reading, clock::now())
}

#[test]
fn each_autoscaler_has_its_explanation() {
    transcript::compare("src/explain/hpa/explained.txt", |line| {
        lines(&decision(line).document(), &Layout::default()).join("\n")
    });
}
