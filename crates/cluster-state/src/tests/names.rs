//! The names of objects of any kind.

use std::sync::Arc;

use serde_json::json;

use super::super::error::CallError;
use super::super::names::matching;
use super::fixture::{connect, object};
use crate::testing::fake_kube::{FakeKube, Fault};
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;

fn deployments() -> Kind {
    Kind {
        group: "apps".into(),
        version: "v1".into(),
        plural: "deployments".into(),
        singular: "deployment".into(),
        short: Vec::new(),
        kind: "Deployment".into(),
        namespaced: true,
        watchable: true,
    }
}

#[tokio::test]
async fn kube_apiserver_selects_the_objects_of_a_namespace_by_their_labels() {
    const PATH: &str = "/apis/apps/v1/namespaces/ml/deployments";
    let kube = FakeKube::start().await;
    kube.put(PATH, object("infer"));
    let client = connect(&kube).await;
    let selector = Selector::parse("app in (a,b),!old").unwrap();
    let found = matching(&client, &deployments(), Some("ml"), &selector).await;
    assert_eq!(found.unwrap(), [Arc::from("infer")]);
    let wanted = format!("labelSelector={}", urlencoded(&selector.to_string()));
    let queries = kube.queries(PATH);
    assert!(queries[0].contains(&wanted), "{queries:?}");
}

fn urlencoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test]
async fn objects_outside_of_namespaces_and_of_the_core_group_are_found() {
    let kube = FakeKube::start().await;
    let disk = json!({"metadata": {"name": "disk"}});
    kube.put("/api/v1/persistentvolumes", disk);
    let volumes = Kind {
        group: "".into(),
        plural: "persistentvolumes".into(),
        kind: "PersistentVolume".into(),
        namespaced: false,
        ..deployments()
    };
    let found = matching(&connect(&kube).await, &volumes, None, &Selector::default()).await;
    assert_eq!(found.unwrap(), [Arc::from("disk")]);
}

#[tokio::test]
async fn a_forbidden_kind_is_an_error_with_the_rule_that_allows_it() {
    let kube = FakeKube::start().await;
    kube.fault("/apis/apps/v1/deployments", Fault::Forbidden);
    let client = connect(&kube).await;
    let found = matching(&client, &deployments(), None, &Selector::default()).await;
    let error = found.unwrap_err();
    assert!(matches!(error, CallError::Forbidden { .. }));
    let rule = r#"{apiGroups: ["apps"], resources: ["deployments"], verbs: ["list", "watch"]}"#;
    assert!(error.to_string().contains(rule), "{error}");
}
