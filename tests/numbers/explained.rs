//! In every scene, explanations agree with the values.

use std::sync::Arc;
use std::time::Duration;

use super::scene::{Scene, close, policy};
use apimachinery::time::Timestamp;
use gpu_metrics::explain::{Explanation, Idle, State};
use gpu_metrics::inventory::ClusterObject;
use gpu_metrics::metric::Value;
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use gpu_metrics_apiserver::provider::Error;

/// Checks an explanation against the served value.
pub(super) fn agrees(explanation: &Explanation, served: &Result<Value, Error>) {
    let number = explanation.value.as_ref().map(|value| value.number);
    assert_eq!(number, served.as_ref().ok().map(|value| value.value));
    assert_eq!(explanation.no_value.is_some(), served.is_err());
    for (place, instant) in explanation.instants.iter().enumerate() {
        let states = explanation.devices.iter();
        let states = states.map(|device| device.readings[place].state);
        let counted = states.filter(|state| *state == State::Counted).count();
        let listed = !explanation.devices.is_empty() && instant.answering > 0;
        assert!(
            !listed || counted == instant.counted as usize,
            "{explanation:#?}"
        );
    }
    let first = "; first over the devices at each instant";
    if let Some(number) = number.filter(|_| explanation.meaning.contains(first)) {
        let numbers = explanation
            .instants
            .iter()
            .filter_map(|instant| instant.number);
        let numbers: Vec<f64> = numbers.collect();
        close(
            Some(numbers.iter().sum::<f64>() / numbers.len() as f64),
            number,
        );
    }
}

fn of_pod(explanation: &Explanation) -> Vec<(State, Option<f64>)> {
    let readings = &explanation.devices[0].readings;
    let told = readings.iter();
    told.map(|reading| (reading.state, reading.number))
        .collect()
}

#[test]
fn each_instant_tells_what_became_of_the_device() {
    let labels = "UUID=A modelName=H100 Hostname=node-1 exported_namespace=n exported_pod=p";
    let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    let answers = scene.mcu(labels, "80 0 60 40").provider();
    let explanation = answers
        .explain("pods n/p", "gpu_memory_utilization")
        .unwrap();
    let expected = [
        (State::Counted, Some(80.0)),
        (State::Idle, Some(0.0)),
        (State::Counted, Some(60.0)),
        (State::Counted, Some(40.0)),
    ];
    assert_eq!(of_pod(&explanation), expected);
    let device = &explanation.devices[0];
    assert_eq!(device.pods, ["n/p"]);
    assert_eq!(device.node.as_deref(), Some("node-1"));
    assert_eq!(device.model.as_deref(), Some("H100"));
    assert_eq!(device.field.as_deref(), Some("DCGM_FI_DEV_MEM_COPY_UTIL"));
    let idle = answers.explain("pods n/p", "gpu_idle_count").unwrap();
    assert_eq!(of_pod(&idle)[0].0, State::Active);
    assert_eq!(of_pod(&idle)[1].0, State::Counted);
}

#[test]
fn what_decides_about_activity_and_is_missing_is_named() {
    let policy = Policy {
        activity: gpu_metrics::policy::Activity::Any(vec![gpu_metrics::policy::Condition::Above(
            gpu_metrics::policy::DeviceValue::GpuUtilization,
            5.0,
        )]),
        ..policy(60)
    };
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    let scene = Scene::new(policy).cluster(&[("n/p", None)]);
    let mut scene =
        scene
            .mcu(labels, "80 80 80 80")
            .signal(SignalId::GPU_UTIL, labels, "90 SENT SENT SENT");
    let explanation = scene
        .provider()
        .explain("pods n/p", "gpu_memory_utilization")
        .unwrap();
    assert_eq!(of_pod(&explanation)[0], (State::Counted, Some(80.0)));
    assert_eq!(
        of_pod(&explanation)[1],
        (State::ActivityUnknown, Some(80.0))
    );
    assert!(
        explanation
            .notes
            .iter()
            .any(|note| note.contains("decides whether they are active"))
    );
}

#[test]
fn pods_of_other_namespaces_are_counted_and_never_named() {
    let shared = |pod: &str| {
        format!("UUID=A Hostname=node-1 exported_namespace={pod} exported_pod=secret-{pod}")
    };
    let scene = Scene::new(policy(60)).cluster(&[("a/secret-a", None), ("b/secret-b", None)]);
    let answers = scene
        .mcu(&shared("a"), "50 50 50 50")
        .mcu(&shared("b"), "50 50 50 50")
        .mcu(&shared("c"), "50 50 50 50")
        .provider();
    for (object, named) in [
        ("pods a/secret-a", 1),
        ("namespaces a", 1),
        ("nodes node-1", 0),
    ] {
        let explanation = answers.explain(object, "gpu_memory_utilization").unwrap();
        let text = serde_json::to_string(&explanation).unwrap();
        assert!(!text.contains("secret-b"), "{object}: {text}");
        assert_eq!(
            explanation.devices.first().map(|device| device.pods.len()),
            Some(named),
            "{object}: {explanation:#?}"
        );
    }
    let own = answers
        .explain("pods a/secret-a", "gpu_memory_utilization")
        .unwrap();
    // The deleted pod `c` held it, and the cluster does not know `c`.
    assert_eq!(own.devices[0].shared_with, 1);
    let mut node = answers
        .explain("nodes node-1", "gpu_memory_utilization")
        .unwrap();
    assert_eq!(node.devices[0].shared_with, 2);
    node.name_holders(true);
    assert_eq!(node.devices[0].pods, ["a/secret-a", "b/secret-b"]);
    assert_eq!(node.devices[0].shared_with, 0);
    let cluster = answers
        .explain_external("a", "cluster_gpu_memory_utilization")
        .unwrap();
    let text = serde_json::to_string(&cluster).unwrap();
    assert!(
        cluster.devices.is_empty() && !text.contains("secret"),
        "{text}"
    );
    assert!(
        cluster
            .notes
            .iter()
            .any(|note| note.contains("devices counted and not listed: 1,"))
    );
}

#[test]
fn a_device_stands_on_the_node_that_the_cluster_knows() {
    let labels = "UUID=A Hostname=10.0.0.7 exported_namespace=n exported_pod=p";
    for (node, told) in [(Some("node-1"), "node-1"), (None, "10.0.0.7")] {
        let mut scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
        Arc::make_mut(&mut scene.inventory).pods[0].node = node.map(Into::into);
        let answers = scene.mcu(labels, "50 50 50 50").provider();
        let explanation = answers.explain("pods n/p", "gpu_memory_utilization");
        let device = &explanation.unwrap().devices[0];
        assert_eq!(device.node.as_deref(), Some(told));
    }
}

#[test]
fn a_name_that_nobody_has_is_told() {
    let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    let answers = scene.mcu(labels, "50 50 50 50").provider();
    for (object, said) in [
        ("pods n/q", "there is no pod q in namespace n"),
        ("pods m/p", "there is no pod p in namespace m"),
        ("deployments.apps n/q", "belongs to deployments.apps q"),
    ] {
        let explanation = answers.explain(object, "gpu_memory_utilization").unwrap();
        let reason = explanation.no_value.unwrap();
        assert!(reason.contains(said), "{object}: {reason}");
    }
}

/// The only pod runs on node-2. Its series are of node-1, where it ran before or
/// where their labels place it.
#[test]
fn a_pod_that_series_place_on_another_node_is_told_so() {
    for started in [None, Some(300.0)] {
        let mut scene = Scene::new(policy(60)).cluster(&[("n/p", started)]);
        let inventory = Arc::make_mut(&mut scene.inventory);
        inventory.pods[0].node = Some("node-2".into());
        inventory.nodes.push(ClusterObject {
            name: "node-2".into(),
            ..inventory.nodes[0].clone()
        });
        let labels = "UUID=A Hostname=node-1 exported_namespace=n exported_pod=p";
        let answers = scene.mcu(labels, "50 50 50 50").provider();
        let explanation = answers.explain("pods n/p", "gpu_memory_utilization");
        let said = explanation.unwrap().no_value.unwrap();
        assert!(
            said.contains("on node-1, and it runs on node-2") && !said.contains("pod labels"),
            "{started:?}: {said}"
        );
    }
}

#[test]
fn since_when_a_device_is_idle_is_told_beyond_the_window() {
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    for (values, after_secs, or_longer) in [
        ("80 40 0 0 0 0 0 0", Some(30), false),
        ("0 0 0 0 0 0 0 0", Some(0), true),
        ("0 0 0 0 0 0 0 40", None, false),
    ] {
        let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
        let answers = scene.mcu(labels, values).provider();
        for object in ["pods n/p", "deployments.apps n/d"] {
            let explanation = answers.explain(object, "gpu_memory_utilization").unwrap();
            let device = &explanation.devices[0];
            let first = Timestamp::from_date(device.heard_since.as_ref().unwrap()).unwrap();
            let idle = after_secs.map(|secs| Idle {
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
fn what_is_held_is_shown_by_no_reading() {
    let labels = "UUID=A exported_namespace=n exported_pod=p";
    let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    let answers = scene.mcu(labels, "80 0 60 40").provider();
    let explanation = answers.explain("pods n/p", "gpu_held_count").unwrap();
    assert_eq!(of_pod(&explanation), [(State::Counted, None); 4]);
    let readings = &explanation.devices[0].readings;
    assert!(
        readings
            .iter()
            .all(|it| it.sampled.is_some() && it.held == Some(true))
    );
}

#[test]
fn a_device_that_went_to_another_pod_is_named_with_those_of_the_window() {
    let of =
        |pod: &str| format!("UUID=A job=dcgm instance=i exported_namespace=n exported_pod={pod}");
    // At the end of the window, and as long as a reading is believed.
    for (after, pods) in [(1, &["n/p", "n/q"][..]), (6, &["n/q"][..])] {
        let scene = Scene::new(policy(60)).cluster(&[("n/p", None), ("n/q", None)]);
        let values = "· ".repeat(6) + &"30 ".repeat(after);
        let answers = scene
            .mcu(&of("p"), "50 50 50 50 50 50")
            .mcu(&of("q"), &values)
            .provider();
        let explanation = answers
            .explain("deployments.apps n/d", "gpu_memory_utilization")
            .unwrap();
        assert_eq!(explanation.devices[0].pods, pods, "{after}");
        let holders: Vec<&String> = explanation.devices[0].holders.iter().collect();
        assert_eq!(holders, pods, "{after}");
        let last = of_pod(&explanation).pop();
        assert_eq!(last, Some((State::Counted, Some(30.0))));
    }
}
