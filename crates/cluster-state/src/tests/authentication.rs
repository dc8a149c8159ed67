use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch as channel;

use super::super::authentication::{self, NAME, Texts};
use super::super::health::WatchRegistry;
use super::super::watch;
use super::fixture::{connect, eventually};
use crate::testing::fake_kube::{FakeKube, Fault};

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps";

fn config_map(name: &str, ca: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "kube-system"}, "data": {"client-ca-file": ca}})
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
        kube.put(PATH, config_map("another", "x"));
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
}

#[tokio::test]
async fn the_config_map_is_watched_by_name() {
    let scene = Scene::start(|kube| kube.put(PATH, config_map(NAME, "one"))).await;
    scene.until("one").await;
    scene.kube.put(PATH, config_map(NAME, "two"));
    scene.until("two").await;
    for query in scene.kube.queries(PATH) {
        assert!(
            query.contains("fieldSelector=metadata.name%3Dextension-apiserver-authentication"),
            "{query}"
        );
    }
    assert!(scene.registry.unready().is_empty());
}

#[tokio::test]
async fn an_absent_config_map_is_waited_for_and_reported() {
    let scene = Scene::start(|_| {}).await;
    let says = || {
        let unready = scene.registry.unready();
        unready
            .iter()
            .any(|(_, why)| why.contains("waiting for the ConfigMap"))
    };
    eventually("it says so", says).await;
    assert!(scene.texts.borrow().is_none());
    scene.kube.put(PATH, config_map(NAME, "one"));
    scene.until("one").await;
    eventually("ready", || scene.registry.unready().is_empty()).await;
}

#[tokio::test]
async fn the_last_good_data_outlives_deletion_garbage_and_a_broken_watch() {
    let scene = Scene::start(|kube| kube.put(PATH, config_map(NAME, "one"))).await;
    scene.until("one").await;
    let known = scene.texts.borrow().clone().unwrap();
    scene.kube.delete(PATH, "kube-system", NAME);
    scene.kube.put(
        PATH,
        json!({"metadata": {"name": NAME, "namespace": "kube-system"}, "data": [1]}),
    );
    eventually("the garbage was met", || {
        scene.registry.watches()[0].left_out > 0
    })
    .await;
    scene.kube.fault(PATH, Fault::Forbidden);
    scene.kube.cut_watches();
    eventually("it broke", || scene.registry.watches()[0].failures > 0).await;
    assert!(Arc::ptr_eq(&known, &scene.texts.borrow().clone().unwrap()));
    assert!(scene.registry.unready().is_empty());
    let state = format!("{:?}", scene.registry.watches()[0].trouble());
    assert!(
        state.contains("extension-apiserver-authentication-reader"),
        "{state}"
    );
}

#[test]
fn retries_are_at_most_five_seconds_apart_while_kube_apiserver_is_unreachable() {
    for failures in 1..100 {
        let wait = watch::wait(failures, authentication::WAIT_MOST);
        assert!(wait <= Duration::from_secs(5), "{wait:?} after {failures}");
        assert!(
            wait >= Duration::from_millis(250),
            "{wait:?} after {failures}"
        );
    }
}
