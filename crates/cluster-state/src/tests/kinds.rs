//! Kinds of owners, also invented ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::kinds::{Kinds, MOST_KINDS, Uses};
use super::super::pool::KindName;
use super::fixture::{PODS, Scene, eventually, object, owned, owners, owners_of, pod};
use crate::testing::fake_kube::FakeKube;

fn kind(group: &str, kind: &str) -> Arc<KindName> {
    Arc::new(KindName::new(group, kind))
}

fn invented(count: usize) -> impl Iterator<Item = Arc<KindName>> {
    (0..count).map(|number| kind("aaa.io", &format!("K{number:04}")))
}

#[test]
fn built_in_kinds_are_always_followed_and_of_others_the_first_by_name() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let replica_set = kind("apps", "ReplicaSet");
    let others = invented(MOST_KINDS + 2).chain([Arc::clone(&replica_set)]);
    assert!(kinds.set_used(others.collect(), now));
    assert_eq!(kinds.names().len(), MOST_KINDS + 1);
    assert!(kinds.get(&replica_set).is_some());
    assert!(kinds.get(&kind("aaa.io", "K0063")).is_some());
    assert!(kinds.get(&kind("aaa.io", "K0064")).is_none());
    assert_eq!(kinds.left_out().len(), 2);
    let again = invented(MOST_KINDS + 2).chain([replica_set]);
    assert!(!kinds.set_used(again.collect(), now), "nothing has changed");
}

#[test]
fn a_kind_that_is_not_used_any_more_is_followed_for_a_while() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let ray = kind("ray.io", "RayCluster");
    kinds.set_used(Uses::from([Arc::clone(&ray)]), now);
    assert!(!kinds.set_used(Uses::new(), now));
    assert!(kinds.get(&ray).is_some());
    assert!(kinds.set_used(Uses::new(), now + Duration::from_secs(601)));
    assert!(kinds.get(&ray).is_none());
}

#[test]
fn a_kind_that_rules_ask_for_is_followed_once_and_for_good() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let ray = kind("ray.io", "RayCluster");
    assert_eq!(kinds.request(&ray), Some(true));
    kinds.set_used(Uses::from([Arc::clone(&ray)]), now);
    assert_eq!(kinds.names().len(), 1);
    kinds.set_used(Uses::new(), now);
    kinds.set_used(Uses::new(), now + Duration::from_secs(601));
    assert_eq!(kinds.request(&ray), Some(false));
    for other in invented(MOST_KINDS - 1) {
        assert_eq!(kinds.request(&other), Some(true));
    }
    assert_eq!(
        kinds.request(&kind("b.io", "B")),
        None,
        "there are too many"
    );
    assert_eq!(kinds.request(&ray), Some(false));
}

fn elsewhere(mut pod: Value, namespace: &str) -> Value {
    pod["metadata"]["namespace"] = namespace.into();
    pod
}

fn wanted(kube: &FakeKube) {
    kube.serve("apps/v1", "replicasets", "ReplicaSet");
    kube.put("/apis/apps/v1/replicasets", object("infer-1"));
    kube.put(PODS, owned(pod("a"), "apps/v1", "ReplicaSet", "infer-1"));
    kube.serve("ray.io/v1", "rayclusters", "RayCluster");
    kube.put("/apis/ray.io/v1/rayclusters", object("ray"));
    kube.put(PODS, owned(pod("b"), "ray.io/v1", "RayCluster", "ray"));
}

#[tokio::test]
async fn kinds_that_are_not_served_leave_the_others_owners_alone() {
    let scene = Scene::start(|kube| {
        wanted(kube);
        for number in 0..40 {
            let pod = elsewhere(pod(&format!("x{number}")), "aaa");
            let kind = format!("K{number:03}");
            kube.put(PODS, owned(pod, "aaa.io/v1", &kind, "x"));
        }
    })
    .await;
    scene
        .until(|now| {
            owners_of(now, "a") == ["replicasets.apps/infer-1"]
                && owners_of(now, "b") == ["rayclusters.ray.io/ray"]
        })
        .await;
    assert!(scene.kube.queries("/apis").len() < 40);
}

#[tokio::test]
async fn too_many_kinds_are_said_on_the_board() {
    let scene = Scene::start(|kube| {
        wanted(kube);
        for number in 0..=MOST_KINDS {
            let pod = elsewhere(pod(&format!("x-{number}")), "aaa");
            let kind = format!("K{number:02}");
            kube.put(PODS, owned(pod, "aaa.io/v1", &kind, "x"));
        }
    })
    .await;
    eventually("said", || {
        let watches = scene.registry.watches();
        let said = watches.iter().find(|watch| &*watch.name == "owners");
        said.is_some_and(|watch| format!("{watch:?}").contains("1 others, the last by name"))
    })
    .await;
    scene
        .until(|now| owners_of(now, "a") == ["replicasets.apps/infer-1"])
        .await;
    assert!(scene.registry.unready().is_empty());
}

#[tokio::test]
async fn an_invented_version_does_not_hide_a_kind() {
    let scene = Scene::start(|kube| {
        wanted(kube);
        kube.put(
            PODS,
            owned(elsewhere(pod("x"), "aaa"), "ray.io/v0", "RayCluster", "x"),
        );
    })
    .await;
    let inventory = scene
        .until(|now| owners_of(now, "b") == ["rayclusters.ray.io/ray"])
        .await;
    let stranger = inventory.pod("aaa", "x").unwrap();
    assert!(owners(&inventory, stranger).is_empty());
}

#[test]
fn a_kind_of_odd_characters_is_one_line_in_messages() {
    let odd = kind("x.io", "A\nERROR forged\u{1b}[31m<script>");
    let spelled = odd.spelled();
    assert!(!spelled.contains(char::is_control), "{spelled:?}");
    assert!(spelled.ends_with(".x.io"), "{spelled}");
}
