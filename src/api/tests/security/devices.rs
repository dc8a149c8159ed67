//! Lists of devices: for which namespaces and users, and which pods they name.

use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};

use super::*;
use crate::provider::composite::Composite;
use crate::provider::tests::explained::shared_gpu;

/// A server of a shared GPU. The rule decides the rights of its users.
fn server(rule: impl Fn(&str, &str) -> bool + Send + 'static) -> Router {
    let (provider, now) = shared_gpu();
    let provider = Arc::new(Composite::from(provider));
    let api = Api::new(provider, move || now, Telemetry::new().unwrap());
    let reviewer = Arc::new(FakeReviewer::new());
    reviewer.rule(move |_, what| match what {
        Access::Resource {
            resource,
            namespace,
            ..
        } if rule(resource, namespace) => AccessVerdict::Allowed(()),
        _ => AccessVerdict::Refused(String::new()),
    });
    layers(&api, &reviewer)
}

async fn ask(server: &Router, target: &str) -> (u16, Json) {
    let request = http::Request::get(format!("{V2}/{target}"));
    let request = request.body(Body::empty()).unwrap();
    let answer = server.clone().oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

fn names(list: &Json) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn s123_devices_of_a_namespace_need_a_right_in_it_and_name_only_its_pods() {
    let server = server(|resource, namespace| (resource, namespace) == ("devices", "a"));
    let (code, list) = ask(&server, "namespaces/a/devices").await;
    assert_eq!((code, &list["kind"]), (200, &json!("DeviceList")), "{list}");
    assert_eq!(list["apiVersion"], "custom.metrics.k8s.io/v1beta2");
    assert_eq!(names(&list), ["secret-a", "waiting"]);
    assert!(list.get("deviceCount").is_none());
    let device = &list["items"][0]["devices"][0];
    for (key, value) in [
        ("uuid", json!("A")),
        ("node", json!("node-1")),
        (
            "readings",
            json!([{"number": 50.0, "state": "active", "counted": true}]),
        ),
        ("pods", json!(["a/secret-a"])),
        ("sharedWith", json!(1)),
    ] {
        assert_eq!(device[key], value, "{key}");
    }
    let (_, workloads) = ask(&server, "namespaces/a/devices?by=workload").await;
    assert_eq!(names(&workloads), ["d"]);
    for list in [list, workloads] {
        assert!(!list.to_string().contains("secret-b"), "{list}");
    }
    let others = "devices devices?by=node namespaces/b/devices namespaces/*/devices \
                  namespaces/a/../b/devices";
    for target in others.split(' ') {
        let (code, said) = ask(&server, target).await;
        assert_eq!(code, 403, "{target}: {said}");
    }
    for (query, wanted) in [
        ("by=node", 400),
        ("by=namespace", 400),
        ("by=", 400),
        ("labelSelector=%3D", 400),
        ("watch=1", 405),
    ] {
        let target = format!("namespaces/a/devices?{query}");
        let (code, said) = ask(&server, &target).await;
        assert_eq!(code, wanted, "{target}");
        assert_eq!(said["kind"], "Status", "{target}");
    }
}

#[tokio::test]
async fn s123_unknown_values_of_devices_are_absent_and_never_zero() {
    let server = server(|_, _| true);
    let (_, list) = ask(&server, "namespaces/a/devices").await;
    let [known, unknown] = [0, 1].map(|place| list["items"][place].as_object().unwrap());
    assert_eq!(known["values"]["gpu_memory_utilization"], 50.0);
    assert_eq!(known["idleSince"]["seconds"], 0.0);
    for absent in ["gpu_utilization", "gpu_power_usage"] {
        let value = known["values"].get(absent);
        assert_eq!(value, None, "{absent}: {known:?}");
    }
    assert_eq!(unknown["values"], json!({}));
    for absent in ["idleSince", "ageSeconds"] {
        assert_eq!(unknown[absent], Json::Null, "{absent}: {unknown:?}");
    }
    let reason = unknown["noValue"].as_str().unwrap();
    assert!(reason.contains("pods a/waiting"), "{reason}");
    let selected = "namespaces/a/devices?labelSelector=app%3Dwaiting";
    assert_eq!(names(&ask(&server, selected).await.1), ["waiting"]);
}

#[tokio::test]
async fn s123_all_devices_need_a_right_to_all_and_their_holders_a_right_to_list_pods() {
    let unnamed = server(|resource, namespace| (resource, namespace) == ("devices", ""));
    let (_, list) = ask(&unnamed, "devices").await;
    assert_eq!(names(&list), ["secret-a", "waiting", "secret-b"]);
    let (_, list) = ask(&unnamed, "devices?by=node").await;
    assert_eq!(list["deviceCount"], 1);
    assert_eq!(names(&list), ["node-1"]);
    let device = &list["items"][0]["devices"][0];
    assert_eq!(device["pods"], json!([]));
    assert_eq!(device["sharedWith"], 2);
    assert!(!list.to_string().contains("secret"), "{list}");
    let (_, list) = ask(&unnamed, "devices?by=namespace").await;
    assert_eq!(names(&list), ["a", "b"]);
    let named = server(|_, namespace| namespace.is_empty());
    let (_, list) = ask(&named, "devices?by=node").await;
    let device = &list["items"][0]["devices"][0];
    assert_eq!(device["pods"], json!(["a/secret-a", "b/secret-b"]));
    assert_eq!(device["sharedWith"], 0);
}
