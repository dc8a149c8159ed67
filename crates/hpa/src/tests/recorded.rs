//! What a real kube-controller-manager wrote (`make recorded`).

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::quantity::parse_milli;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::health::Health;
use super::{
    ControllerFlags, History, Hpa, MetricsAnswer, NOW, ScaledPod, Situation, TargetScale, Trace,
    cells, rows,
};

const RECORDED: &str = include_str!("../../tests/recorded.json");

fn number(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

fn milli(value: &Value) -> i64 {
    parse_milli(value.as_str().unwrap()).unwrap()
}

fn answer(answer: &Value) -> MetricsAnswer {
    if let Some(pods) = answer["pods"].as_object() {
        let values = pods.iter().map(|(pod, value)| (pod.clone(), milli(value)));
        return MetricsAnswer::Pods(values.collect());
    }
    if let Some(values) = answer["values"].as_array() {
        return MetricsAnswer::Values(values.iter().map(milli).collect());
    }
    match answer["failed"].as_str() {
        Some(message) => MetricsAnswer::Failed(message.to_owned()),
        None => MetricsAnswer::NotAsked,
    }
}

/// The autoscaler with a status.
fn autoscaler(recorded: &Value, status: &Value) -> Hpa {
    let object = json!({
        "metadata": {"namespace": recorded["namespace"], "name": "target"},
        "spec": recorded["spec"], "status": status,
    });
    let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
    Hpa::try_from(&object).unwrap()
}

/// The reason of a condition that the sync wrote.
fn reason<'s>(status: &'s Value, type_: &str) -> &'s str {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    let found = all.find(|it| it["type"] == type_);
    found.map_or("", |it| it["reason"].as_str().unwrap())
}

/// The differences between a sync and what the controller wrote.
fn differences(hpa: &Hpa, trace: &Trace, wrote: &Value) -> Vec<String> {
    let status = &wrote["status"];
    let mut found = Vec::new();
    let mut compare = |what: &str, computed: String, written: String| {
        if computed != written {
            found.push(format!("{what}: {computed} computed, {written} written"));
        }
    };
    // Without a decision the replicas stay.
    let is_known = hpa.metrics.len() == trace.metrics.len() && trace.desired.is_none();
    let after = trace.desired.unwrap_or(trace.current);
    compare("replicas", after.to_string(), wrote["replicas"].to_string());
    if trace.desired.is_some() {
        compare(
            "desired",
            after.to_string(),
            status["desiredReplicas"].to_string(),
        );
    }
    let values = autoscaler_values(hpa, status);
    for (index, metric) in trace.metrics.iter().enumerate() {
        let shown = metric.shown().map(|shown| shown.0 as f64 / 1000.0);
        let written = values.get(index).copied().flatten();
        compare("value", format!("{shown:?}"), format!("{written:?}"));
    }
    if trace.desired.is_none() && is_known {
        let is_active = reason(status, "ScalingActive") == "ValidMetricFound";
        compare("active", "false".to_owned(), is_active.to_string());
    }
    if let (Some(stabilised), Some(desired)) = (trace.stabilised, trace.desired) {
        let limit = trace
            .limit
            .map_or("DesiredWithinRange", |limit| limit.reason());
        compare(
            "limit",
            limit.to_owned(),
            reason(status, "ScalingLimited").to_owned(),
        );
        if desired == trace.current {
            let held = reason(status, "AbleToScale").ends_with("Stabilized");
            let computed = trace.proposed != Some(stabilised);
            compare("stabilised", computed.to_string(), held.to_string());
        }
    }
    if let Some(to_zero) = trace.scaled_to_zero {
        let written = reason(status, "ScaledToZero") == "ScaledToZero";
        compare("to zero", to_zero.to_string(), written.to_string());
    }
    found
}

fn autoscaler_values(hpa: &Hpa, status: &Value) -> Vec<Option<f64>> {
    let status = serde_json::from_value(status.clone()).unwrap();
    super::HpaStatus::new(Some(&status), &hpa.metrics).values
}

/// Whether our arithmetic applies: the target's pods can be selected, and no metric is of
/// type Resource.
fn is_computed(recorded: &Value) -> bool {
    let status = &recorded["syncs"][0]["wrote"]["status"];
    let metrics = recorded["spec"]["metrics"].as_array().unwrap();
    !reason(status, "AbleToScale").starts_with("Failed")
        && !["InvalidSelector", "AmbiguousSelector"].contains(&reason(status, "ScalingActive"))
        && !metrics
            .iter()
            .any(|it| it["type"].as_str().unwrap().contains("Resource"))
}

/// Replays the syncs of a situation.
fn replay(recorded: &Value, flags: &ControllerFlags) -> Vec<String> {
    let pods: Vec<Pod> = serde_json::from_value(recorded["pods"].clone()).unwrap();
    let pods: Vec<ScaledPod> = pods.iter().map(ScaledPod::from).collect();
    let before = &recorded["before"]["conditions"];
    let hpa = autoscaler(recorded, &json!({"conditions": before}));
    let mut history = History {
        scaled_to_zero: hpa.status.is_true(super::super::SCALED_TO_ZERO),
        ..History::default()
    };
    let mut found = Vec::new();
    for (place, sync) in recorded["syncs"].as_array().unwrap().iter().enumerate() {
        let answers = sync["answers"].as_array().into_iter().flatten();
        let answers: Vec<MetricsAnswer> = answers.map(answer).collect();
        let since = Duration::from_millis(sync["ms"].as_u64().unwrap_or(0));
        let scale = |index: usize| number(&sync["scale"][index]).unwrap();
        let now = NOW + since;
        let trace = Situation {
            hpa: &hpa,
            scale: TargetScale {
                spec_replicas: scale(0),
                status_replicas: scale(1),
            },
            pods: &pods,
            answers: &answers,
            flags,
            history: &history,
            now,
        }
        .sync();
        trace.remember(&mut history, &hpa, flags, now);
        let found_now = differences(&hpa, &trace, &sync["wrote"]);
        found.extend(found_now.iter().map(|it| {
            format!(
                "{} sync {place}: {it}: {:?} {:?}",
                recorded["name"], trace.steps, trace.metrics
            )
        }));
    }
    found
}

#[test]
fn every_recorded_sync_is_computed_as_the_controller_computed_it() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let version = recorded["version"].as_str().unwrap();
    let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
    assert_eq!(minor, super::super::NEWEST);
    let flags = ControllerFlags::of_version(minor);
    let situations = recorded["situations"].as_array().unwrap();
    assert!(situations.len() > 100);
    let computed = situations.iter().filter(|it| is_computed(it));
    let found: Vec<String> = computed.clone().flat_map(|it| replay(it, &flags)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(computed.count() > 100);
}

/// The judgements of the last written status, by the names of the situations.
#[test]
fn every_recorded_status_has_a_judgement() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let mut judged = BTreeMap::new();
    for situation in recorded["situations"].as_array().unwrap() {
        let last = situation["syncs"].as_array().unwrap().last().unwrap();
        let health = Health::of(&autoscaler(situation, &last["wrote"]["status"]));
        judged.insert(situation["name"].as_str().unwrap(), health);
    }
    for row in rows(include_str!("recorded.txt")) {
        let [name, said] = cells(row);
        assert!(
            judged[name].to_string().starts_with(said),
            "{name}: {}",
            judged[name]
        );
    }
}
