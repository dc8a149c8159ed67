use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use super::super::authentication::{self, NAME};
use super::super::health::WatchRegistry;
use super::fixture::{connect, eventually, until_told};
use crate::testing::fake_kube::{FakeKube, Fault};

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

fn config_map(ca: &str) -> Value {
    json!({"metadata": {"name": NAME, "namespace": "kube-system"}, "data": {"client-ca-file": ca}})
}

#[tokio::test]
async fn the_config_map_is_waited_for_and_followed_and_the_last_good_data_stay() {
    let absent = "which kube-apiserver makes: check";
    let kube = FakeKube::start().await;
    let (sender, texts) = channel::channel(None);
    let registry = WatchRegistry::default();
    let client = connect(&kube).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(authentication::follow(client, registry.clone(), sender));
    until_told(&registry, NAME, absent).await;
    assert!(!registry.is_ready());
    assert!(texts.borrow().is_none());
    for ca in ["one", "two"] {
        kube.document(PATH, config_map(ca));
        let is_known = || {
            let texts = texts.borrow();
            let texts = texts.as_ref();
            registry.is_ready() && texts.is_some_and(|it| it["client-ca-file"] == ca)
        };
        eventually(ca, is_known).await;
    }
    let known = texts.borrow().clone().unwrap();
    let garbage = Fault::Text(r#"{"data": [1]}"#.to_owned());
    let reader = "extension-apiserver-authentication-reader";
    for (fault, words) in [
        (Fault::Status(404), absent),
        (garbage, "not an answer of the Kubernetes API"),
        (Fault::Forbidden, reader),
    ] {
        kube.fault(PATH, fault);
        until_told(&registry, NAME, words).await;
        assert!(Arc::ptr_eq(&known, texts.borrow().as_ref().unwrap()));
        assert!(registry.is_ready());
    }
}
