//! The kinds that the cluster serves.

use serde_json::json;

use super::super::served;
use super::fixture::connect;
use crate::testing::fake_kube::{FakeKube, Fault};

#[tokio::test]
async fn a_kind_has_its_preferred_version() {
    let kube = FakeKube::start().await;
    let resource = |plural: &str, kind: &str| {
        json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced",
               "shortNames": ["x"], "verbs": ["get", "list", "watch"]})
    };
    let clusters = resource("rayclusters", "RayCluster");
    kube.document(
        "/apis",
        json!({"items": [
            {"metadata": {"name": "ray.io", "creationTimestamp": null}, "versions": [
                {"version": "v2", "resources": [clusters]},
                {"version": "v1", "resources": [clusters, resource("rayjobs", "RayJob")]}]},
            {"metadata": {"name": "empty.io"}}]}),
    );
    let kinds = served::kinds(&connect(&kube).await).await.unwrap();
    let found: Vec<_> = kinds
        .iter()
        .map(|kind| (&*kind.singular, kind.api_version()))
        .collect();
    let v = |version: &str| format!("ray.io/{version}");
    assert_eq!(found, [("raycluster", v("v2")), ("rayjob", v("v1"))]);
    assert!(kinds.iter().all(|kind| kind.watchable && kind.namespaced));
}

#[tokio::test]
async fn the_error_of_forbidden_discovery_has_the_remedy() {
    let kube = FakeKube::start().await;
    kube.fault("/apis", Fault::Forbidden);
    let error = served::kinds(&connect(&kube).await).await.unwrap_err();
    assert!(error.to_string().contains("system:discovery"), "{error}");
}
