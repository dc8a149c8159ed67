//! The names of objects of any kind.

use serde_json::json;

use super::super::error::CallError;
use super::super::names::matching;
use super::fixture::{connect, object};
use crate::testing::fake_kube::{FakeKube, Fault};
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;

fn kind(group: &str, plural: &str, is_namespaced: bool) -> Kind {
    Kind {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: "".into(),
        short: Vec::new(),
        kind: "".into(),
        namespaced: is_namespaced,
        watchable: true,
    }
}

#[tokio::test]
async fn kube_apiserver_selects_objects_of_any_group_and_scope_by_their_labels() {
    let selector = Selector::parse("app in (a,b),!old").unwrap();
    let encoded: String =
        url::form_urlencoded::byte_serialize(selector.to_string().as_bytes()).collect();
    let disk = json!({"metadata": {"name": "disk"}});
    for (kind, namespace, path, object, name) in [
        (
            kind("apps", "deployments", true),
            Some("ml"),
            "/apis/apps/v1/namespaces/ml/deployments",
            object("infer"),
            "infer",
        ),
        (
            kind("", "persistentvolumes", false),
            None,
            "/api/v1/persistentvolumes",
            disk,
            "disk",
        ),
    ] {
        let kube = FakeKube::start().await;
        kube.put(path, object);
        let client = connect(&kube).await;
        let found = matching(&client, &kind, namespace, &selector).await;
        assert_eq!(found.unwrap(), [name.into()]);
        let queries = kube.queries(path);
        let wanted = format!("labelSelector={encoded}");
        assert!(queries[0].contains(&wanted), "{queries:?}");
    }
}

#[tokio::test]
async fn a_forbidden_kind_is_an_error_with_the_rule_that_allows_it() {
    let kube = FakeKube::start().await;
    kube.fault("/apis/apps/v1/deployments", Fault::Forbidden);
    let client = connect(&kube).await;
    let deployments = kind("apps", "deployments", true);
    let found = matching(&client, &deployments, None, &Selector::default()).await;
    let error = found.unwrap_err();
    assert!(matches!(error, CallError::Forbidden { .. }));
    let rule = r#"{apiGroups: ["apps"], resources: ["deployments"], verbs: ["list", "watch"]}"#;
    assert!(error.to_string().contains(rule), "{error}");
}
