use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::super::reduce::{self, ReducedPod};
use crate::core::inventory::PodPhase;

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

fn pod(value: &Value) -> ReducedPod {
    reduce::pod(&raw(value)).unwrap()
}

fn requests(containers: &Value) -> bool {
    pod(&json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})).requests_gpu
}

#[test]
fn gpu_resources_of_every_spelling_are_gpus_and_others_are_not() {
    let asks =
        |name: &str, amount: Value| requests(&json!([{"resources": {"limits": {name: amount}}}]));
    for name in [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.10gb",
    ] {
        assert!(asks(name, json!("1")), "{name}");
        assert!(asks(name, json!(2)), "{name}");
        assert!(!asks(name, json!("0")), "{name}");
        assert!(!asks(name, json!(0)), "{name}");
    }
    for name in ["cpu", "nvidia.com/hostdev", "amd.com/gpu", "gpu"] {
        assert!(!asks(name, json!("8")), "{name}");
    }
    assert!(requests(
        &json!([{}, {"resources": {"requests": {"nvidia.com/gpu": "1"}}}])
    ));
}

#[test]
fn init_containers_and_claims_count_too() {
    let gpu = json!([{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]);
    let of = |spec: Value| pod(&json!({"metadata": {"name": "p"}, "spec": spec})).requests_gpu;
    assert!(of(json!({"containers": [{}], "initContainers": gpu})));
    assert!(of(json!({"resourceClaims": [{"name": "gpu"}]})));
    assert!(!of(json!({"resourceClaims": []})));
}

#[test]
fn what_is_absent_or_null_is_no_error() {
    for value in [
        json!({"metadata": {"name": "p"}}),
        json!({"metadata": {"name": "p", "labels": null, "ownerReferences": null, "deletionTimestamp": null},
               "spec": null, "status": null}),
        json!({"metadata": {"name": "p"}, "spec": {"containers": null, "nodeName": ""},
               "status": {"startTime": "yesterday"}}),
    ] {
        let pod = pod(&value);
        assert_eq!(pod.phase, PodPhase::Pending);
        assert!(!pod.terminating && !pod.requests_gpu);
        assert_eq!((pod.node, pod.started), (None, None));
    }
}

#[test]
fn phases_and_endings_are_told_apart() {
    let of =
        |phase: &str| pod(&json!({"metadata": {"name": "p"}, "status": {"phase": phase}})).phase;
    assert_eq!(of("Succeeded"), PodPhase::Finished);
    assert_eq!(of("Failed"), PodPhase::Finished);
    assert_eq!(of("Unknown"), PodPhase::Unknown);
    assert_eq!(of("Resting"), PodPhase::Pending);
    let ending = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert!(pod(&ending).terminating);
}

#[test]
fn what_is_no_object_is_refused_with_its_name_where_it_has_one() {
    for text in [
        "null",
        "1",
        "[]",
        "{}",
        r#"{"metadata":{}}"#,
        r#"{"metadata":{"name":7}}"#,
    ] {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        assert!(reduce::pod(raw).is_err(), "{text}");
        assert!(reduce::object(raw).is_err(), "{text}");
        assert!(reduce::service(raw).is_err(), "{text}");
        assert!(reduce::config_map(raw).is_err(), "{text}");
    }
    let odd = json!({"metadata": {"name": "p", "namespace": "ml", "labels": {"a": 1}}});
    let error = reduce::pod(&raw(&odd)).unwrap_err().to_string();
    assert!(error.starts_with("ml/p: "), "{error}");
}

#[test]
fn only_the_controller_counts_of_the_owners() {
    let of = |references: Value| {
        let value = json!({"metadata": {"name": "p", "ownerReferences": references}});
        reduce::object(&raw(&value)).unwrap().controller
    };
    assert_eq!(
        of(json!([{"apiVersion": "v1", "kind": "Node", "name": "n"}])),
        None
    );
    let controller = of(json!([
        {"apiVersion": "v1", "kind": "Node", "name": "n", "controller": false},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]));
    let controller = controller.unwrap();
    assert_eq!((&*controller.group, &*controller.version), ("apps", "v1"));
    for version in [
        "", "/", "apps/", "a/b/c", "A/v1", "a..b/v1", "../v1", "v1?x", "v%31",
    ] {
        let reference =
            json!([{"apiVersion": version, "kind": "K", "name": "n", "controller": true}]);
        assert_eq!(of(reference), None, "{version}");
    }
}
