//! Causes that can be computed by hand, from two scrapes of an autoscaler from 1 to 4 replicas.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::*;
use crate::history::autoscaler::tests::batch;

/// Two scrapes: before the change and with it.
struct Scrapes {
    ordered: [f64; 2],
    desired: [f64; 2],
    current: [f64; 2],
    ready: f64,
    values: [f64; 2],
    is_limited: bool,
}

/// From 2 to 4 replicas at once, by 2 pods at 90.
const GROWN: Scrapes = Scrapes {
    ordered: [2.0, 4.0],
    desired: [2.0, 4.0],
    current: [2.0, 2.0],
    ready: 2.0,
    values: [50.0, 90.0],
    is_limited: false,
};

/// From 4 to 2 replicas, with 4 pods at 10.
const SHRUNK: Scrapes = Scrapes {
    ordered: [4.0, 2.0],
    desired: [4.0, 2.0],
    current: [4.0, 4.0],
    ready: 4.0,
    values: [10.0, 10.0],
    is_limited: false,
};

fn on_pods() -> Value {
    json!({"type": "Pods", "pods": {
        "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"},
    }})
}

fn external() -> Value {
    json!({"type": "External", "external": {
        "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "50"},
    }})
}

/// Metric and asked replicas of the only change with what held it back, or why it is unknown.
fn explained(scrapes: &Scrapes, metrics: &[Value], behavior: &Value) -> Result<String, String> {
    let object = json!({
        "metadata": {"namespace": "ml", "name": "a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "minReplicas": 1, "maxReplicas": 4, "metrics": metrics, "behavior": behavior,
        },
    });
    let object: HorizontalPodAutoscaler = serde_json::from_value(object).unwrap();
    let times = [1000, 1015].map(Timestamp::from_secs);
    let both = |values: [f64; 2]| [(times[0], values[0]), (times[1], values[1])];
    let (none, m) = (["", ""], ["m", "average"]);
    let written = |name: &str| format!("kube_horizontalpodautoscaler_{name}");
    let is_limited = f64::from(u8::from(scrapes.is_limited));
    let all = [
        (
            "kube_deployment_spec_replicas".to_owned(),
            none,
            both(scrapes.ordered),
        ),
        (
            "kube_deployment_status_replicas_ready".to_owned(),
            none,
            both([scrapes.ready; 2]),
        ),
        (
            written("status_desired_replicas"),
            none,
            both(scrapes.desired),
        ),
        (
            written("status_current_replicas"),
            none,
            both(scrapes.current),
        ),
        (written("status_condition"), none, both([is_limited; 2])),
        (written("status_target_metric"), m, both(scrapes.values)),
    ];
    let all = all
        .iter()
        .map(|(name, of, samples)| (&**name, *of, &samples[..]));
    let recorded = RecordedAutoscaler::of(&[batch(&all.collect::<Vec<_>>())]);
    let past = Past {
        hpa: Hpa::try_from(&object).unwrap(),
        flags: ControllerFlags::of_version(37),
        rescales: recorded.rescales(),
        ready: recorded.ready(),
        recorded,
    };
    let cause = past.decision(past.rescales[0]).cause;
    let cause = cause.map_err(|why| why.split_once("reconstructed: ").unwrap().1.to_owned())?;
    let (value, asked) = (cause.value, cause.replicas);
    Ok(format!("{} {value} {asked} {}", cause.metric, cause.held))
}

/// 1.8 times 2 pods is 3.6, rounded up to 4.
#[test]
fn values_of_the_sync_that_scaled_explain_it_or_those_before() {
    let pods = [on_pods()];
    assert_eq!(explained(&GROWN, &pods, &Value::Null).unwrap(), "m 90 4 ");
    let late = Scrapes {
        current: [2.0, 4.0],
        values: [90.0, 50.0],
        ..GROWN
    };
    assert_eq!(explained(&late, &pods, &Value::Null).unwrap(), "m 90 4 ");
    let neither = Scrapes {
        values: [50.0, 50.0],
        ..GROWN
    };
    let why = explained(&neither, &pods, &Value::Null).unwrap_err();
    assert_eq!(why, "the recorded values make 2 replicas");
    let by_hand = Scrapes {
        desired: [2.0, 2.0],
        ..GROWN
    };
    let why = explained(&by_hand, &pods, &Value::Null).unwrap_err();
    assert!(why.starts_with("no status with these desired"), "{why}");
}

/// 3 times 2 pods is 6; 0.2 times 4 pods is 0.8, rounded up to 1.
#[test]
fn what_held_a_change_back_is_named_where_it_can() {
    let pods = [on_pods()];
    let steep = Scrapes {
        values: [50.0, 150.0],
        ..GROWN
    };
    let said = explained(&steep, &pods, &Value::Null).unwrap();
    assert_eq!(said, "m 150 6 TooManyReplicas");
    let said = explained(&SHRUNK, &pods, &Value::Null).unwrap();
    assert_eq!(said, "m 10 1 stabilisation");
    let at_once = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    let why = explained(&SHRUNK, &pods, &at_once).unwrap_err();
    assert_eq!(why, "the recorded values make 1 replica");
    let limited = Scrapes {
        is_limited: true,
        ..SHRUNK
    };
    let said = explained(&limited, &pods, &at_once).unwrap();
    assert_eq!(said, "m 10 1 ScaleDownLimit");
}

/// Of 3 pods 2 have a value: (90 + 90 + 0) ÷ 3 = 60, 1.2 times 3 is 3.6, rounded up to 4, and
/// not 1.8 times 3, which is 6.
#[test]
fn pods_that_start_have_no_value() {
    let starting = Scrapes {
        ordered: [3.0, 4.0],
        desired: [3.0, 4.0],
        current: [3.0, 3.0],
        ..GROWN
    };
    let said = explained(&starting, &[on_pods()], &Value::Null).unwrap();
    assert_eq!(said, "m 90 4 ");
}

/// 100 shared by 4 replicas is 25 of 50 for each, and 2 replicas. By 3 replicas it is written as
/// 33.334, rounded up, and does not make 3.
#[test]
fn a_share_of_each_replica_is_that_of_the_replicas_then() {
    for (from, value) in [(4.0, 25.0), (3.0, 33.334)] {
        let scrapes = Scrapes {
            ordered: [from, 2.0],
            desired: [from, 2.0],
            current: [from, from],
            values: [value, value],
            ..SHRUNK
        };
        let said = explained(&scrapes, &[external()], &Value::Null).unwrap();
        assert_eq!(said, format!("m {value} 2 "));
    }
    let from_none = Scrapes {
        ordered: [0.0, 1.0],
        desired: [0.0, 1.0],
        current: [0.0, 0.0],
        ..GROWN
    };
    let why = explained(&from_none, &[external()], &Value::Null).unwrap_err();
    assert!(why.contains("its value is not recorded"), "{why}");
}

#[test]
fn metrics_of_one_name_have_no_recorded_value() {
    let why = explained(&GROWN, &[external(), external()], &Value::Null).unwrap_err();
    assert!(why.contains("its value is not recorded"), "{why}");
}
