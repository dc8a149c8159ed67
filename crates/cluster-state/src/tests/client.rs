use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::client::{Client, ClusterAccess};
use super::super::error::CallError;
use super::fixture::connect;
use crate::testing::fake_kube::FakeKube;

/// With the current context of a kubeconfig.
fn at(path: PathBuf) -> ClusterAccess {
    ClusterAccess {
        kubeconfig: Some(path),
        ..ClusterAccess::default()
    }
}

async fn refused(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    let access = at(path);
    Client::connect(&access).await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_error_of_an_unusable_kubeconfig_has_its_path_and_the_remedy() {
    let access = at(PathBuf::from("/no/such/file"));
    let error = Client::connect(&access).await.unwrap_err().to_string();
    assert!(error.starts_with("kubeconfig /no/such/file: "), "{error}");
    assert!(error.contains("No such file"), "{error}");
    for text in ["", "{", "[]", "kind: Config", "current-context: gone"] {
        let error = refused(text).await;
        let words = "current context has a cluster and a user";
        assert!(error.contains(words), "{text}: {error}");
    }
    let with = |cluster: Value| {
        json!({"current-context": "t", "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
               "users": [{"name": "t", "user": {}}], "clusters": [{"name": "t", "cluster": cluster}]})
        .to_string()
    };
    let proxied = with(json!({"server": "https://a", "proxy-url": "ftp://p"}));
    let error = refused(&proxied).await;
    assert!(error.contains("proxy"), "{error}");
    let bad = with(json!({"server": "https://a", "certificate-authority-data": "%%"}));
    let error = refused(&bad).await;
    assert!(error.contains("kubeconfig"), "{error}");
}

#[tokio::test]
async fn an_invalid_path_is_rejected_before_it_is_sent() {
    let kube = FakeKube::start().await;
    let client = connect(&kube).await;
    let error = client.object::<Value>("/a b\u{7}").await.unwrap_err();
    assert!(matches!(error, CallError::Garbled(..)), "{error}");
}

/// A client of the fake kube-apiserver, through an edited kubeconfig.
async fn edited(kube: &FakeKube, edit: impl Fn(&mut Value), access: ClusterAccess) -> Client {
    let text = std::fs::read_to_string(kube.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    edit(&mut config);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    let access = ClusterAccess {
        kubeconfig: Some(path),
        ..access
    };
    Client::connect(&access).await.unwrap()
}

#[tokio::test]
async fn an_entry_that_is_not_used_refuses_no_file() {
    let kube = FakeKube::start().await;
    kube.document("/version", json!({"major": "1"}));
    let unused = |config: &mut Value| {
        let cluster =
            json!({"name": "old", "cluster": {"server": "https://a", "proxy-url": "ftp://p"}});
        config["clusters"].as_array_mut().unwrap().push(cluster);
        let exec =
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"});
        let user = json!({"name": "old", "user": {"exec": exec}});
        config["users"].as_array_mut().unwrap().push(user);
    };
    let client = edited(&kube, unused, ClusterAccess::default()).await;
    client.object::<Value>("/version").await.unwrap();
}

#[tokio::test]
async fn a_request_goes_through_the_proxy_of_its_cluster() {
    let kube = FakeKube::start().await;
    let proxied = |config: &mut Value| {
        config["clusters"][0]["cluster"]["proxy-url"] = json!("http://127.0.0.1:9");
    };
    let client = edited(&kube, proxied, ClusterAccess::default()).await;
    let error = client.object::<Value>("/version").await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable(_)), "{error}");
}
