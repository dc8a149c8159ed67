//! In every scene, explanations agree with the values.

use std::time::Duration;

use super::scene::{Scene, policy};
use apimachinery::time::Timestamp;
use gpu_metrics::explain::{Explanation, IdleSince, ReadingOutcome};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

fn of_pod(explanation: &Explanation) -> Vec<(ReadingOutcome, Option<f64>)> {
    let readings = &explanation.devices[0].readings;
    let told = readings.iter();
    told.map(|reading| (reading.state, reading.number))
        .collect()
}

#[test]
fn each_instant_has_the_outcome_of_the_device() {
    let labels = "UUID=A modelName=H100 Hostname=node-1 exported_namespace=n exported_pod=p";
    let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    let answers = scene.mcu(labels, "80 0 60 40").answers();
    let explanation = answers
        .explain("pods n/p", "gpu_memory_utilization")
        .unwrap();
    let expected = [
        (ReadingOutcome::Counted, Some(80.0)),
        (ReadingOutcome::Idle, Some(0.0)),
        (ReadingOutcome::Counted, Some(60.0)),
        (ReadingOutcome::Counted, Some(40.0)),
    ];
    assert_eq!(of_pod(&explanation), expected);
    let device = &explanation.devices[0];
    assert_eq!(device.pods, ["n/p"]);
    assert_eq!(device.node.as_deref(), Some("node-1"));
    assert_eq!(device.model.as_deref(), Some("H100"));
    assert_eq!(device.field.as_deref(), Some("DCGM_FI_DEV_MEM_COPY_UTIL"));
    let idle = answers.explain("pods n/p", "gpu_idle_count").unwrap();
    assert_eq!(of_pod(&idle)[0].0, ReadingOutcome::Active);
    assert_eq!(of_pod(&idle)[1].0, ReadingOutcome::Counted);
}

#[test]
fn a_missing_reading_that_decides_activity_is_noted() {
    let policy = Policy {
        activity: gpu_metrics::policy::Activity::Any(vec![
            gpu_metrics::policy::ActivityCondition::Above(
                gpu_metrics::policy::DeviceValue::GpuUtilization,
                5.0,
            ),
        ]),
        ..policy(60)
    };
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    let scene = Scene::new(policy).cluster(&[("n/p", None)]);
    let mut scene =
        scene
            .mcu(labels, "80 80 80 80")
            .signal(SignalId::GPU_UTIL, labels, "90 SENT SENT SENT");
    let explanation = scene
        .answers()
        .explain("pods n/p", "gpu_memory_utilization")
        .unwrap();
    assert_eq!(
        of_pod(&explanation)[0],
        (ReadingOutcome::Counted, Some(80.0))
    );
    assert_eq!(
        of_pod(&explanation)[1],
        (ReadingOutcome::ActivityUnknown, Some(80.0))
    );
    assert!(
        explanation
            .notes
            .iter()
            .any(|note| note.contains("decides whether they are active"))
    );
}

#[test]
fn the_idle_time_of_a_device_reaches_beyond_the_window() {
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    for (values, after_secs, or_longer) in [
        ("80 40 0 0 0 0 0 0", Some(30), false),
        ("0 0 0 0 0 0 0 0", Some(0), true),
        ("0 0 0 0 0 0 0 40", None, false),
    ] {
        let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
        let answers = scene.mcu(labels, values).answers();
        for object in ["pods n/p", "deployments.apps n/d"] {
            let explanation = answers.explain(object, "gpu_memory_utilization").unwrap();
            let device = &explanation.devices[0];
            let first = Timestamp::from_date(device.heard_since.as_ref().unwrap()).unwrap();
            let idle = after_secs.map(|secs| IdleSince {
                since: (first + Duration::from_secs(secs)).date(),
                or_longer,
            });
            assert_eq!(device.idle, idle, "{object} {values}");
        }
        let held = answers.explain("pods n/p", "gpu_held_count").unwrap();
        assert_eq!(
            (&held.devices[0].field, &held.devices[0].idle),
            (&None, &None)
        );
    }
}

#[test]
fn a_count_of_held_devices_shows_no_readings() {
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    let answers = scene.mcu(labels, "80 0 60 40").answers();
    let explanation = answers.explain("pods n/p", "gpu_held_count").unwrap();
    assert_eq!(of_pod(&explanation), [(ReadingOutcome::Counted, None); 4]);
    let readings = &explanation.devices[0].readings;
    assert!(
        readings
            .iter()
            .all(|it| it.sampled.is_some() && it.held == Some(true))
    );
}

#[test]
fn a_device_names_the_pods_that_held_it_in_the_window() {
    let of =
        |pod: &str| format!("UUID=A job=dcgm instance=i exported_namespace=n exported_pod={pod}");
    // One scrape after the change both pods are named, and after six only the new one.
    for (after, pods) in [(1, &["n/p", "n/q"][..]), (6, &["n/p", "n/q"][..])] {
        let scene = Scene::new(policy(60)).cluster(&[("n/p", None), ("n/q", None)]);
        let values = "· ".repeat(6) + &"30 ".repeat(after);
        let answers = scene
            .mcu(&of("p"), "50 50 50 50 50 50")
            .mcu(&of("q"), &values)
            .answers();
        let explanation = answers
            .explain("deployments.apps n/d", "gpu_memory_utilization")
            .unwrap();
        assert_eq!(explanation.devices[0].pods, pods, "{after}");
        let holders: Vec<&String> = explanation.devices[0].holders.iter().collect();
        assert_eq!(holders, pods, "{after}");
        let last = of_pod(&explanation).pop();
        assert_eq!(last, Some((ReadingOutcome::Counted, Some(30.0))));
    }
}
