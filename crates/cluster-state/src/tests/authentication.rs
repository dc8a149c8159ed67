use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch as channel;

use super::super::authentication::{self, NAME, Texts};
use super::super::health::WatchRegistry;
use super::fixture::{connect, eventually};
use crate::testing::fake_kube::{FakeKube, Fault};

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

fn config_map(ca: &str) -> Value {
    json!({"metadata": {"name": NAME, "namespace": "kube-system"}, "data": {"client-ca-file": ca}})
}

struct Scene {
    kube: FakeKube,
    registry: WatchRegistry,
    texts: channel::Receiver<Texts>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scene {
    async fn start(fill: impl FnOnce(&FakeKube)) -> Self {
        let kube = FakeKube::start().await;
        fill(&kube);
        let (sender, texts) = channel::channel(None);
        let registry = WatchRegistry::default();
        let client = connect(&kube).await;
        let task = tokio::spawn(authentication::follow(client, registry.clone(), sender));
        Self {
            kube,
            registry,
            texts,
            task,
        }
    }

    async fn until(&self, ca: &str) {
        let is = || {
            let texts = self.texts.borrow().clone();
            texts.is_some_and(|texts| texts.get("client-ca-file").is_some_and(|is| is == ca))
        };
        eventually(ca, is).await;
    }

    /// Waits for a report that contains these words.
    async fn until_told(&self, words: &str) {
        let told = || {
            let mut watches = self.registry.watches().into_iter();
            watches.any(|watch| {
                let reason = watch.condition.state().reason();
                reason.is_some_and(|why| why.to_string().contains(words))
            })
        };
        eventually(words, told).await;
    }
}

#[tokio::test]
async fn an_absent_config_map_is_waited_for_and_a_changed_one_is_followed() {
    let scene = Scene::start(|_| {}).await;
    scene.until_told("which kube-apiserver makes: check").await;
    assert!(!scene.registry.is_ready());
    assert!(scene.texts.borrow().is_none());
    scene.kube.document(PATH, config_map("one"));
    scene.until("one").await;
    eventually("ready", || scene.registry.is_ready()).await;
    scene.kube.document(PATH, config_map("two"));
    scene.until("two").await;
}

#[tokio::test]
async fn the_last_good_data_outlives_deletion_garbage_and_a_missing_right() {
    let scene = Scene::start(|kube| kube.document(PATH, config_map("one"))).await;
    scene.until("one").await;
    let known = scene.texts.borrow().clone().unwrap();
    let garbage = Fault::Text(r#"{"data": [1]}"#.to_owned());
    let reader = "extension-apiserver-authentication-reader";
    for (fault, words) in [
        (Fault::Status(404), "which kube-apiserver makes: check"),
        (garbage, "not an answer of the Kubernetes API"),
        (Fault::Forbidden, reader),
    ] {
        scene.kube.fault(PATH, fault);
        scene.until_told(words).await;
        assert!(Arc::ptr_eq(&known, &scene.texts.borrow().clone().unwrap()));
        assert!(scene.registry.is_ready());
    }
}
