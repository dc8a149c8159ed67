use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::client::{Client, ClusterAccess};
use super::super::error::{CallError, ClientError};
use super::fixture::connect;
use crate::testing::fake_kube::FakeKube;

async fn with_file(path: PathBuf) -> Result<Client, ClientError> {
    let access = ClusterAccess {
        kubeconfig: Some(path),
        ..ClusterAccess::default()
    };
    Client::connect(&access).await
}

async fn with_text(text: &str) -> Result<Client, ClientError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    with_file(path).await
}

/// With an edited kubeconfig for a server.
async fn edited(kube: &FakeKube, edit: impl Fn(&mut Value)) -> Result<Client, ClientError> {
    let text = std::fs::read_to_string(kube.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    edit(&mut config);
    with_text(&config.to_string()).await
}

#[tokio::test]
async fn the_error_of_an_unusable_kubeconfig_has_its_path_and_the_remedy() {
    let error = with_file("/no/such/file".into()).await.unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("kubeconfig /no/such/file: "), "{error}");
    assert!(error.contains("No such file"), "{error}");
    for text in ["", "{", "[]", "kind: Config", "current-context: gone"] {
        let error = with_text(text).await.unwrap_err().to_string();
        let words = "current context has a cluster and a user";
        assert!(error.contains(words), "{text}: {error}");
    }
    let kube = FakeKube::start().await;
    for (key, value, words) in [
        ("proxy-url", "ftp://p", "proxy"),
        ("certificate-authority-data", "%%", "kubeconfig"),
    ] {
        let edit = |config: &mut Value| config["clusters"][0]["cluster"][key] = json!(value);
        let error = edited(&kube, edit).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn an_invalid_path_is_rejected_before_it_is_sent() {
    let kube = FakeKube::start().await;
    let client = connect(&kube).await;
    let error = client.object::<Value>("/a b\u{7}").await.unwrap_err();
    assert!(matches!(error, CallError::Garbled(..)), "{error}");
}

#[tokio::test]
async fn an_entry_that_is_not_used_refuses_no_file() {
    let kube = FakeKube::start().await;
    kube.document("/version", json!({"major": "1"}));
    let exec =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"});
    let unused = [
        (
            "clusters",
            "cluster",
            json!({"server": "https://a", "proxy-url": "ftp://p"}),
        ),
        ("users", "user", json!({"exec": exec})),
    ];
    let unused = |config: &mut Value| {
        for (list, key, value) in &unused {
            let entries = config[list].as_array_mut().unwrap();
            entries.push(json!({"name": "old", *key: value}));
        }
    };
    let client = edited(&kube, unused).await.unwrap();
    client.object::<Value>("/version").await.unwrap();
}

/// The server need not run when a client is made.
#[tokio::test]
async fn a_request_goes_through_the_proxy_of_its_cluster_or_names_the_address() {
    let kube = FakeKube::start().await;
    let proxied = |config: &mut Value| {
        config["clusters"][0]["cluster"]["proxy-url"] = json!("http://127.0.0.1:9");
    };
    let client = edited(&kube, proxied).await.unwrap();
    let error = client.object::<Value>("/version").await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable(_)), "{error}");
    let told = format!("{} cannot be reached", client.address());
    assert!(error.to_string().contains(&told), "{error}");
}
