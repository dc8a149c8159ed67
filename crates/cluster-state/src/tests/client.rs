use std::path::PathBuf;

use serde_json::json;

use super::super::client::{Client, ClusterAccess};
use super::super::error::CallError;
use super::fixture::connect;
use crate::testing::fake_kube::{FakeKube, Fault};

async fn refused(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    let access = ClusterAccess::Kubeconfig(path);
    Client::connect(&access).await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_error_of_an_unusable_kubeconfig_has_its_path_and_the_remedy() {
    let access = ClusterAccess::Kubeconfig(PathBuf::from("/no/such/file"));
    let error = Client::connect(&access).await.unwrap_err().to_string();
    assert!(error.starts_with("kubeconfig /no/such/file: "), "{error}");
    assert!(error.contains("No such file"), "{error}");
    for text in ["", "{", "[]", "kind: Config", "current-context: gone"] {
        let error = refused(text).await;
        let words = "current context has a cluster and a user";
        assert!(error.contains(words), "{text}: {error}");
    }
    let with = |cluster: serde_json::Value| {
        json!({"current-context": "t", "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
               "users": [{"name": "t", "user": {}}], "clusters": [{"name": "t", "cluster": cluster}]})
        .to_string()
    };
    let proxied = with(json!({"server": "https://a", "proxy-url": "http://p"}));
    let error = refused(&proxied).await;
    assert!(error.contains("proxy"), "{error}");
    let bad = with(json!({"server": "https://a", "certificate-authority-data": "%%"}));
    let error = refused(&bad).await;
    assert!(error.contains("kubeconfig"), "{error}");
}

#[tokio::test]
async fn an_answer_larger_than_allowed_is_cut_off() {
    let kube = FakeKube::start().await;
    kube.fault("/big", Fault::Text("x".repeat(100_000)));
    let client = connect(&kube).await;
    let error = client.get("/big", "*/*", 1000).await.unwrap_err();
    assert!(matches!(error, CallError::Garbled(_)));
    let whole = client.get("/big", "*/*", 100_000).await;
    assert_eq!(whole.unwrap().len(), 100_000);
}

#[tokio::test]
async fn an_invalid_path_is_rejected_before_it_is_sent() {
    let kube = FakeKube::start().await;
    let client = connect(&kube).await;
    let error = client.get("/a b\u{7}", "*/*", 1000).await.unwrap_err();
    assert!(matches!(error, CallError::Garbled(..)), "{error}");
}
