//! Makes a past from the store's answers, and reads manifests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use gpu_metrics::batch::{Batch, Sample, SeriesKey};
use gpu_metrics::signal::{SignalId, Unit};
use gpu_metrics::validity::UnitEvidence;
use hpa::Hpa;

use crate::history::devices::Rows;
use crate::history::owners::{Owners, Workload};
use crate::history::period::Period;
use crate::replay::{Gather, Past, Plan};
use crate::tests::rows;

use super::{START, object, plan, pods};

const STEP: Duration = Duration::from_secs(15);

/// Owners of pods of Deployments, as recorded.
fn recorded(pods: &[(&str, &str)]) -> Owners {
    let owner = |(pod, name): &(&str, &str)| {
        let workload = Workload {
            kind: "Deployment".into(),
            name: (*name).into(),
        };
        (("team".into(), (*pod).into()), workload)
    };
    Owners::recorded(pods.iter().map(owner))
}

fn gather(plan: &Plan, owners: Owners) -> Gather<'_> {
    Gather::new(plan, owners, PERIOD)
}

const PERIOD: Period = Period {
    start: START,
    step: STEP,
    count: 4,
};

/// Gathers rows of a pod, a UUID and readings (`10 20 · 30`), one each step; `·` is none.
fn gathered(rows: &[(&str, &str, &str)]) -> Past {
    let texts = rows.iter().map(|(pod, uuid, _)| {
        json!({"UUID": uuid, "exported_namespace": "team", "exported_pod": pod}).to_string()
    });
    let texts: Vec<String> = texts.collect();
    let mut batch = Batch::new(SignalId(0));
    for (key, ((.., values), text)) in rows.iter().zip(&texts).enumerate() {
        batch.begin_series(SeriesKey(key as u128), text);
        for (place, value) in values.split_whitespace().enumerate() {
            if let Ok(value) = value.parse() {
                let at = START + STEP * place as u32;
                batch.push(Sample { at, value });
            }
        }
    }
    let mut rows = Rows {
        period: PERIOD,
        units: vec![Unit::Percent],
        as_ratio: None,
        evidence: UnitEvidence::default(),
    };
    let plan = plan(&pods("50"), &Value::Null);
    let mut gather = gather(&plan, Owners::default());
    gather.take(&rows.of(&(0..4), &[batch]), 0..4);
    gather.finish()
}

#[test]
fn demand_is_the_sum_over_the_workloads_gpus() {
    let rows = [
        ("infer-5d4f8c9b7-bcdfg", "GPU-1", "50 100 100 50"),
        ("infer-5d4f8c9b7-bcdfg", "GPU-2", "50 96 95 50"),
        // Of two series of a device, the larger value counts.
        ("infer-5d4f8c9b7-bcdfg", "GPU-2", "40 40 40 60"),
        ("infer-5d4f8c9b7-fghjk", "GPU-3", "· 0 0 80"),
        ("other-0", "GPU-4", "30 0 30 30"),
    ];
    let past = gathered(&rows);
    let demand: Vec<f64> = past.moments.iter().map(|it| it.demand.unwrap()).collect();
    let expected = [1.0, 1.96, 1.95, 1.9];
    for (demand, expected) in demand.iter().zip(expected) {
        assert!((demand - expected).abs() < 1e-6, "{demand} {expected}");
    }
    let counts = past
        .moments
        .iter()
        .map(|it| (it.pods, it.gpus, it.censored));
    let expected = [(1, 2, false), (2, 3, true), (2, 3, true), (2, 3, false)];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
    assert_eq!(past.gpus_per_pod, 2.0);
    assert_eq!(past.censored(), 0.5);
}

#[test]
fn a_gap_in_the_readings_of_a_pod_is_no_idleness() {
    let rows = [
        ("infer-5d4f8c9b7-bcdfg", "GPU-1", "50 · 50 50"),
        ("infer-5d4f8c9b7-bcdfh", "GPU-2", "50 50 50 ·"),
    ];
    let past = gathered(&rows);
    let known: Vec<bool> = past.moments.iter().map(|it| it.demand.is_some()).collect();
    // At 1, half of the GPUs have no reading; at 3, one pod has ended.
    assert_eq!(known, [true, false, true, true]);
    assert_eq!(past.moments[3].demand, Some(0.5));
}

#[test]
fn pods_are_identified_by_recorded_owners_or_by_certain_names() {
    let mut plan = plan(&pods("50"), &Value::Null);
    for (kind, pod, owned) in [
        ("Deployment", "infer-5d4f8c9b7-bcdfg", true),
        ("Deployment", "infer-large-5d4f8c9b7-bcdfg", false),
        ("Deployment", "infer-gpu-0", false),
        ("Deployment", "infer-batch-x", false),
        ("Deployment", "infer-0", false),
        ("Deployment", "other-5d4f8c9b7-bcdfg", false),
        ("Deployment", "infer", false),
        ("StatefulSet", "infer-12", false),
        ("StatefulSet", "infer-x", false),
        ("ReplicaSet", "infer-bcdfg", false),
        ("LeaderWorkerSet", "infer-0-1", false),
    ] {
        kind.clone_into(&mut plan.hpa.scaled.kind);
        let pod: Arc<str> = pod.into();
        let by_names = gather(&plan, Owners::default());
        assert_eq!(by_names.owns(&pod), owned, "{kind} {pod}");
    }
    plan.hpa.scaled.kind = "Deployment".to_owned();
    let owners = [("strange", "infer"), ("infer-5d4f8c9b7-bcdfg", "other")];
    let recorded = gather(&plan, recorded(&owners));
    assert!(recorded.owns(&"strange".into()));
    assert!(!recorded.owns(&"infer-5d4f8c9b7-bcdfg".into()));
}

#[test]
fn metrics_that_cannot_be_simulated_are_refused_with_their_place() {
    let of = |metric: &str| {
        let metric: Value = serde_json::from_str(metric).unwrap();
        let hpa = Hpa::try_from(&object(&metric, &Value::Null)).unwrap();
        Plan::read(hpa, "default")
    };
    for row in rows(include_str!("refused.txt")) {
        let (metric, name) = row.split_once(" | ").unwrap();
        let said = of(metric).unwrap_err();
        let start = format!("spec.metrics[0]: {name} cannot be simulated");
        assert!(said.starts_with(&start), "{said}");
    }
    let mut metric = pods("50");
    metric["pods"]["metric"]["selector"] = json!({"matchLabels": {"window": "2m"}});
    let plan = of(&metric.to_string()).unwrap();
    assert!(plan.metric.unwrap().window.is_some());
}
