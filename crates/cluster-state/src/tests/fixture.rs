//! A fake cluster with its watches.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::health::{WatchHealth, WatchRegistry};
use super::super::inventory::{WatchSettings, Watches};
use super::super::objects::decode;
use super::super::state::Event;
use crate::testing::fake_kube::FakeKube;
pub(super) use crate::testing::fake_kube::pod;
use gpu_metrics::inventory::{Inventory, Pod, Workload};

pub(super) const PODS: &str = "/api/v1/pods";

/// A timeout that only a hanging test reaches.
const GENEROUS: Duration = Duration::from_secs(60);

/// A server and its watches.
pub(super) struct Scene {
    pub(super) kube: FakeKube,
    pub(super) registry: WatchRegistry,
    pub(super) watches: Watches,
}

impl Scene {
    /// A server with a node, a namespace and the objects of `fill`.
    pub(super) async fn start(fill: impl FnOnce(&FakeKube)) -> Self {
        let kube = FakeKube::small().await;
        fill(&kube);
        Self::watching(kube).await
    }

    /// A server with the pod `a`, which is listed and watched.
    pub(super) async fn with_a() -> Self {
        let scene = Self::start(|kube| kube.put(PODS, pod("a"))).await;
        scene.until_pods(&["a"]).await;
        eventually("watching", || scene.kube.watchers(PODS) == 1).await;
        scene
    }

    pub(super) async fn watching(kube: FakeKube) -> Self {
        let client = connect(&kube).await;
        let registry = WatchRegistry::default();
        let watches = Watches::start(&client, &registry, WatchSettings::default());
        Self {
            kube,
            registry,
            watches,
        }
    }

    pub(super) fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.watches.subscribe().borrow())
    }

    /// The first inventory that `wanted` accepts.
    pub(super) async fn until(&self, wanted: impl Fn(&Inventory) -> bool) -> Arc<Inventory> {
        let mut watch = self.watches.subscribe();
        let found = watch.wait_for(|inventory| wanted(inventory));
        let found = tokio::time::timeout(GENEROUS, found).await;
        let found = found.unwrap_or_else(|_| panic!("never: {:?}", self.inventory()));
        Arc::clone(&found.unwrap())
    }

    pub(super) async fn until_pods(&self, names: &[&str]) -> Arc<Inventory> {
        self.until(|inventory| {
            let known: Vec<&str> = inventory.pods.iter().map(|pod| &*pod.name).collect();
            known == names
        })
        .await
    }

    /// How many pages of lists of pods were read.
    pub(super) fn lists(&self) -> usize {
        let queries = self.kube.queries(PODS);
        queries.iter().filter(|it| it.contains("limit=")).count()
    }

    pub(super) fn health(&self, name: &str) -> WatchHealth {
        health(&self.registry, name).expect("the watch is on the registry")
    }

    /// Waits until all objects are known that readiness needs.
    pub(super) async fn ready(&self) {
        eventually("ready", || self.registry.is_ready()).await;
    }

    /// Waits until a watch has been complete, and works.
    pub(super) async fn until_it_works(&self, name: &str) {
        let works = || {
            let health = self.health(name);
            health.complete && health.condition.state().reason().is_none()
        };
        eventually(name, works).await;
    }
}

fn health(registry: &WatchRegistry, name: &str) -> Option<WatchHealth> {
    let mut watches = registry.watches().into_iter();
    watches.find(|watch| &*watch.name == name)
}

/// Waits until the last call of a watch has failed for this reason.
pub(super) async fn until_told(registry: &WatchRegistry, name: &str, reason: &str) {
    let is_told = || {
        let health = health(registry, name);
        let told = health.as_ref().and_then(|it| it.condition.state().reason());
        told.is_some_and(|told| told.to_string().contains(reason))
    };
    eventually(reason, is_told).await;
}

pub(super) async fn connect(kube: &FakeKube) -> Client {
    let access = kube.access();
    Client::connect(&access).await.unwrap()
}

/// Waits until a condition holds.
pub(super) async fn eventually(what: &str, reached: impl Fn() -> bool) {
    let poll = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let polled = tokio::time::timeout(GENEROUS, poll).await;
    assert!(polled.is_ok(), "never: {what}");
}

pub(super) fn raw(object: &Value) -> Box<RawValue> {
    to_raw_value(object).unwrap()
}

/// The event of an added or changed object.
pub(super) fn put(object: &Value) -> Event {
    Event::Put(Box::new(decode(&raw(object)).unwrap()))
}

/// The event of a deleted object.
pub(super) fn deleted(object: &Value) -> Event {
    Event::Deleted(decode(&raw(object)).unwrap().metadata)
}

/// A pod with a controller.
pub(super) fn owned(mut object: Value, api_version: &str, kind: &str, name: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Secret", "name": "not-a-controller", "uid": "x"},
        {"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": true},
    ]);
    object
}

/// An owner, metadata only.
pub(super) fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ml", "uid": name, "labels": {"of": name}}})
}

/// The owners of a pod, as `resource/name`.
pub(super) fn owners(inventory: &Inventory, pod: &Pod) -> Vec<String> {
    let owners = pod.owners.iter();
    let owners = owners.map(|index| &inventory.workloads[*index as usize]);
    let text = |it: &Workload| format!("{}/{}", it.kind.resource, it.name);
    owners.map(text).collect()
}

/// The owners of a pod by its name.
pub(super) fn owners_of(inventory: &Inventory, name: &str) -> Vec<String> {
    let pod = inventory.pod("ml", name);
    pod.map(|pod| owners(inventory, pod)).unwrap_or_default()
}
