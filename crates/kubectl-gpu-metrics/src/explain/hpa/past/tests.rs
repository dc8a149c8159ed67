//! Decisions that can be computed by hand, from samples every 15 s.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use gpu_metrics::batch::{Batch, Sample, SeriesKey};
use gpu_metrics::dcgm::metrics;
use gpu_metrics::signal::SignalId;
use hpa::Proposal;
use hpa::pods::PodCounts;
use hpa::ratio::Milli;

use crate::history::owners::{Owners, Workload};

use super::*;

const START: i64 = 1_700_000_100;

fn at(second: i64) -> Timestamp {
    Timestamp::from_secs(START + second)
}

/// Adds a series with a sample every 15 s in an hour.
fn add(batch: &mut Batch, labels: &Value, value: impl Fn(i64) -> Option<f64>) {
    let key = SeriesKey(batch.series_len() as u128);
    batch.begin_series(key, &labels.to_string());
    for second in (0..3600).step_by(15) {
        if let Some(value) = value(second) {
            let at = at(second);
            batch.push(Sample { at, value });
        }
    }
}

/// Pods of a Deployment with a GPU each: a name, when it exists and is Ready, and the load.
type Life = (&'static str, std::ops::Range<i64>, i64, fn(i64) -> f64);

fn recording(pods: &[Life]) -> Recording {
    let [mut devices, mut lives] = [0, 1].map(|it| Batch::new(SignalId(it)));
    for (place, (pod, life, ready, load)) in pods.iter().enumerate() {
        let device = json!({
            "__name__": "DCGM_FI_DEV_MEM_COPY_UTIL", "UUID": format!("GPU-{place}"),
            "gpu": place.to_string(), "instance": "a:9400", "job": "dcgm",
            "exported_namespace": "ml", "exported_pod": pod,
        });
        let there = |value: f64, second: i64| life.contains(&second).then_some(value);
        add(&mut devices, &device, |second| there(load(second), second));
        let name = json!({
            "__name__": "kube_pod_status_ready", "namespace": "ml", "pod": pod, "condition": "true",
        });
        let is_ready = |second: i64| f64::from(u8::from(second >= *ready));
        add(&mut lives, &name, |second| there(is_ready(second), second));
    }
    let owner = |(pod, ..): &Life| {
        let owner = Workload {
            kind: "Deployment".into(),
            name: "infer".into(),
        };
        ((Arc::from("ml"), Arc::from(*pod)), owner)
    };
    let owners = Owners::recorded(pods.iter().map(owner));
    Recording::of(&devices, &lives, &owners, at(0))
}

/// An autoscaler from 1 to 3 replicas with a target of 50, whose ordered replicas changed at
/// these seconds.
fn past(changes: &[(i64, i32)]) -> Past {
    let object = json!({
        "metadata": {"namespace": "ml", "name": "infer"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
            "minReplicas": 1, "maxReplicas": 3,
            "metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "gpu_memory_utilization"},
                "target": {"type": "AverageValue", "averageValue": "50"},
            }}],
        },
    });
    let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
    let replicas = |second: i64| {
        let last = changes.iter().rev().find(|(since, _)| *since <= second);
        (at(second), last.unwrap().1)
    };
    Past {
        hpa: Hpa::try_from(&object).unwrap(),
        flags: ControllerFlags::of_version(37),
        external: ExternalMetrics::new(&metrics::built_in()),
        ordered: (0..1800).step_by(15).map(replicas).collect(),
        ready: vec![(at(1215), 2), (at(1260), 3)],
    }
}

fn decide(past: &Past, recording: &Recording) -> Decision {
    let recorded = Recorded {
        hpa: past.hpa.clone(),
        values: vec![None],
    };
    past.decide(past.rescales()[0], recorded, recording)
}

/// Two pods at 90 ask for 90 ÷ 50 × 2 = 3.6, rounded up to 4, of which 3 are allowed. The third
/// pod exists from the change on, and has no part in it.
#[test]
fn a_rescale_is_explained_by_the_values_before_it() {
    let busy: fn(i64) -> f64 = |second| if second < 900 { 40.0 } else { 90.0 };
    let pods = [
        ("infer-a", 0..1800, 0, busy),
        ("infer-b", 0..1800, 0, busy),
        ("infer-c", 1200..1800, 1230, busy),
    ];
    let past = past(&[(0, 2), (1200, 3)]);
    let decision = decide(&past, &recording(&pods));
    let (time, trace) = decision.sync.unwrap();
    assert_eq!(time, at(1190));
    assert_eq!((trace.proposed, trace.desired), (Some(4), Some(3)));
    let proposal = Proposal::Replicas {
        shown: Milli(90_000),
        replicas: 4,
    };
    assert_eq!(trace.metrics[0].proposal, proposal);
    assert_eq!(decision.ready, Some(at(1260)));
}

/// Two pods at 10 ask for 0.2 × 2 = 0.4, rounded up to 1. The two that they asked for 100 s
/// before hold the replicas for 300 s.
#[test]
fn a_change_that_stabilisation_forbids_is_not_explained() {
    let fallen: fn(i64) -> f64 = |second| if second < 1000 { 50.0 } else { 10.0 };
    let pods = [
        ("infer-a", 0..1800, 0, fallen),
        ("infer-b", 0..1800, 0, fallen),
    ];
    let recording = recording(&pods);
    let early = decide(&past(&[(0, 2), (1200, 1)]), &recording);
    assert_eq!(
        early.sync.unwrap_err(),
        "the recorded values make 2 replicas"
    );
    let late = decide(&past(&[(0, 2), (1500, 1)]), &recording);
    assert_eq!(late.sync.unwrap().1.proposed, Some(1));
}

#[test]
fn without_records_of_pods_the_reason_names_the_series() {
    let decision = decide(&past(&[(0, 2), (1200, 3)]), &recording(&[]));
    assert!(decision.sync.unwrap_err().contains("kube_pod_status_ready"));
}

/// A pod that has not been Ready yet has no value of its own, and counts as 0 in a scale-up:
/// 90 of one pod, and (90 + 0) ÷ 2 = 45 of two, which is within a tenth of 50.
#[test]
fn a_pod_that_starts_has_no_value() {
    let busy: fn(i64) -> f64 = |_| 90.0;
    let pods = [
        ("infer-a", 0..1800, 0, busy),
        ("infer-b", 1000..1800, 1800, busy),
    ];
    let recording = recording(&pods);
    let of = ("Deployment", "infer");
    let scaled = recording.scaled_pods("ml", of, at(1300));
    let scaled = scaled
        .iter()
        .map(|pod| (&*pod.name, pod.counts, pod.is_ready));
    let expected = [
        ("infer-a", PodCounts::Yes, true),
        ("infer-b", PodCounts::Yes, false),
    ];
    assert!(scaled.eq(expected));
    assert_eq!(recording.scaled_pods("ml", of, at(600)).len(), 1);
    let past = past(&[(0, 2)]);
    let recorded = Recorded {
        hpa: past.hpa.clone(),
        values: vec![None],
    };
    let (_, trace) = &past.syncs(&recorded, &recording, [at(1295), at(1305)])[0];
    let proposal = Proposal::Replicas {
        shown: Milli(90_000),
        replicas: 2,
    };
    assert_eq!(trace.metrics[0].proposal, proposal);
}

/// The value of a metric that is not of GPUs is the one that the controller wrote: 4 waiting
/// requests for each of two replicas, with a target of 2, ask for 4.
#[test]
fn other_metrics_have_the_value_that_the_controller_wrote() {
    let idle: fn(i64) -> f64 = |_| 0.0;
    let recording = recording(&[("infer-a", 0..1800, 0, idle), ("infer-b", 0..1800, 0, idle)]);
    let mut past = past(&[(0, 2), (1200, 3)]);
    let external = json!({"type": "External", "external": {
        "metric": {"name": "requests_waiting"},
        "target": {"type": "AverageValue", "averageValue": "2"},
    }});
    let object = json!({"metadata": {"namespace": "ml"}, "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "infer"},
        "maxReplicas": 3, "metrics": [external],
    }});
    let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
    past.hpa = Hpa::try_from(&object).unwrap();
    for (written, desired) in [(Some(4.0), Some(3)), (None, None)] {
        let recorded = Recorded {
            hpa: past.hpa.clone(),
            values: vec![written],
        };
        let decision = past.decide(past.rescales()[0], recorded, &recording);
        let sync = decision.sync.as_ref().ok();
        assert_eq!(sync.and_then(|(_, trace)| trace.desired), desired);
        if let Err(why) = decision.sync {
            assert!(why.starts_with("requests_waiting: no value"), "{why}");
        }
    }
}
