//! What is said about autoscalers, first and below.

use std::collections::BTreeMap;

use hpa::{ControllerFlags, Hpa, MetricsAnswer, ScaledPod, TargetScale};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::read::Inputs;
use super::*;
use crate::document::Block;

/// An autoscaler of four pods from 1 to 4 with the target 50. `conditions` are `TYPE STATUS
/// REASON`, `value` is that of each pod now.
fn decision(conditions: &[&str], value: Option<i64>, behavior: &Value) -> Decision {
    let conditions = conditions.iter().map(|it| {
        let words: Vec<&str> = it.split(' ').collect();
        json!({"type": words[0], "status": words[1], "reason": words[2], "message": "told"})
    });
    let object = json!({
        "metadata": {"namespace": "ml", "name": "a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "minReplicas": 1, "maxReplicas": 4, "behavior": behavior,
            "metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"},
            }}],
        },
        "status": {
            "currentReplicas": 4, "desiredReplicas": 4,
            "conditions": conditions.collect::<Vec<_>>(),
        },
    });
    let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
    let pods = (0..4).map(|place| {
        let pod = json!({
            "metadata": {"name": format!("p{place}")}, "status": {"phase": "Running"},
        });
        ScaledPod::from(&serde_json::from_value::<Pod>(pod).unwrap())
    });
    let pods: Vec<ScaledPod> = pods.collect();
    let answer = match value {
        Some(value) => {
            let values = pods.iter().map(|pod| (pod.name.clone(), value * 1000));
            MetricsAnswer::Pods(values.collect::<BTreeMap<_, _>>())
        }
        None => MetricsAnswer::Failed("gone".to_owned()),
    };
    let reading = Reading {
        hpa: Hpa::try_from(&object).unwrap(),
        inputs: Ok(Inputs {
            scale: TargetScale {
                spec_replicas: 4,
                status_replicas: 4,
            },
            pods,
            starting: Vec::new(),
            answers: vec![answer],
        }),
        flags: ControllerFlags::of_version(hpa::NEWEST),
    };
    Decision::new(reading, clock::now())
}

fn verdicts(document: &Document) -> Vec<&str> {
    let verdicts = document.blocks.iter().filter_map(|block| match block {
        Block::Verdict(verdict) => Some(verdict.text.as_str()),
        _ => None,
    });
    verdicts.collect()
}

fn steps(document: &Document) -> String {
    let steps = document.blocks.iter().filter_map(|block| match block {
        Block::Steps(steps) => Some(steps.join("\n")),
        _ => None,
    });
    steps.collect::<Vec<_>>().join("\n")
}

const ACTIVE: &str = "ScalingActive True ValidMetricFound";
const READY: &str = "AbleToScale True ReadyForNewScale";
const WITHIN: &str = "ScalingLimited False DesiredWithinRange";

#[test]
fn the_verdict_is_that_of_the_written_conditions() {
    let maximum = "ScalingLimited True TooManyReplicas";
    let document = decision(&[READY, ACTIVE, maximum], Some(100), &Value::Null).document();
    assert_eq!(verdicts(&document), ["At its maximum: has 4, wants 8"]);
    assert!(steps(&document).contains("the mean is 100, 2 of the target"));
}

#[test]
fn a_contradiction_is_said_first() {
    let failed = "ScalingActive False FailedGetPodsMetric";
    for (conditions, value, first) in [
        (
            vec![READY, failed],
            Some(50),
            "The controller read no value at its last sync; those of now make 4 replicas",
        ),
        (
            vec![READY, ACTIVE, WITHIN],
            None,
            "A metric has no value now; the controller wrote 4 replicas at its last sync",
        ),
        (
            vec![READY, ACTIVE, WITHIN],
            Some(10),
            "The values of now make 1 replica; the controller wrote 4 at its last sync",
        ),
    ] {
        let document = decision(&conditions, value, &Value::Null).document();
        assert_eq!(verdicts(&document)[0], first);
        assert_eq!(verdicts(&document).len(), 2);
    }
    let agreed = decision(&[READY, ACTIVE, WITHIN], Some(50), &Value::Null);
    assert_eq!(verdicts(&agreed.document()), ["Follows its metrics"]);
}

/// The controller wrote that a policy limits the scale-down: stabilisation is not blamed, and
/// the replicas that its memory of changes allows are no contradiction.
#[test]
fn a_policy_that_limits_is_not_called_stabilisation() {
    let limited = "ScalingLimited True ScaleDownLimit";
    let policy = json!({"type": "Pods", "value": 1, "periodSeconds": 600});
    for (rules, said) in [
        (
            json!({"selectPolicy": "Disabled"}),
            "Scaling down is disabled by selectPolicy",
        ),
        (
            json!({"policies": [policy]}),
            "Scales down as fast as its rate allows",
        ),
    ] {
        let behavior = json!({"scaleDown": rules});
        let document = decision(&[READY, ACTIVE, limited], Some(5), &behavior).document();
        assert_eq!(verdicts(&document), [said]);
        assert!(
            !steps(&document).contains("stabilisation"),
            "{}",
            steps(&document)
        );
    }
}

#[test]
fn written_stabilisation_holds_the_replicas() {
    let held = "AbleToScale True ScaleDownStabilized";
    let document = decision(&[held, ACTIVE, WITHIN], Some(5), &Value::Null).document();
    assert_eq!(verdicts(&document), ["Held by its stabilisation window"]);
    let held = "stabilisation makes it 4, the highest recommendation of the last 300 s";
    assert!(steps(&document).ends_with(held), "{}", steps(&document));
}

#[test]
fn what_the_controller_wrote_is_shown_without_the_rest() {
    let mut decision = decision(&["AbleToScale False FailedGetScale"], None, &Value::Null);
    decision.trace = Err("access denied".to_owned());
    let document = decision.document();
    let expected = [
        "Cannot scale its target: told",
        "Not computed: access denied",
    ];
    assert_eq!(verdicts(&document), expected);
}

#[test]
fn pods_that_start_are_counted_where_they_have_no_value() {
    let mut decision = decision(&[], Some(80), &Value::Null);
    assert!(!steps(&decision.document()).contains("starting pods"));
    let inputs = decision.reading.inputs.as_mut().unwrap();
    inputs.starting = ["p0", "p3"].map(str::to_owned).into();
    if let MetricsAnswer::Pods(values) = &mut inputs.answers[0] {
        values.remove("p3");
    }
    assert!(steps(&decision.document()).contains("until they are Ready: 1; each counts as 0"));
}
