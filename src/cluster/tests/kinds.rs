//! Kinds of owners that somebody invented.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::kinds::{Kinds, MOST_KINDS, SHARE, Used, Uses, Why};
use super::super::pool::KindName;
use super::fixture::{PODS, Scene, eventually, object, owned, owners, owners_of, pod};
use crate::core::inventory::ObjectKind;
use crate::testing::fake_kube::FakeKube;

fn kind(group: &str, kind: &str) -> Arc<KindName> {
    Arc::new(KindName {
        group: group.into(),
        kind: kind.into(),
        version: "v1".into(),
    })
}

fn uses(kinds: impl IntoIterator<Item = (Arc<KindName>, &'static str)>) -> Uses {
    let mut uses = Uses::new();
    for (kind, namespace) in kinds {
        let used = uses.entry(kind.key()).or_insert_with(|| Used {
            kind,
            namespaces: Default::default(),
        });
        used.namespaces.insert(namespace.into());
    }
    uses
}

fn invented(count: usize) -> impl Iterator<Item = (Arc<KindName>, &'static str)> {
    (0..count).map(|number| (kind("aaa.io", &format!("K{number:04}")), "attacker"))
}

fn resource(kind: &KindName) -> ObjectKind {
    ObjectKind::new("things.x", &kind.kind, "x/v1", true)
}

#[test]
fn built_in_kinds_come_first_and_namespaces_take_turns() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let mut all: Vec<_> = invented(500).collect();
    all.push((kind("apps", "ReplicaSet"), "ml"));
    all.push((kind("ray.io", "RayCluster"), "ml"));
    kinds.set_used(uses(all), now);
    let mut asked = Vec::new();
    while let Some(lookup) = kinds.next(now, true) {
        asked.push(lookup.kind.kind.to_string());
    }
    assert_eq!(asked[0], "ReplicaSet");
    assert!(asked[1..3].contains(&"RayCluster".to_owned()), "{asked:?}");
    assert!(asked.len() < 8, "four at once for one namespace: {asked:?}");
    assert_eq!(kinds.next(now, false), None);
}

#[test]
fn kinds_that_are_not_served_take_no_place_and_rest() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    kinds.set_used(uses(invented(2000)), now);
    let mut lookups = 0;
    while let Some(lookup) = kinds.next(now, true) {
        kinds.lost(lookup.kind.key(), Why::NotServed, now);
        lookups += 1;
        assert!(lookups < 100_000, "asked without end");
        if lookups == 1000 {
            break;
        }
    }
    assert_eq!(lookups, 1000);
    assert_eq!(kinds.crowded(), None);
    let ray = kind("ray.io", "RayCluster");
    let both = invented(2000).chain([(Arc::clone(&ray), "ml")]);
    kinds.set_used(uses(both), now);
    let next = kinds.next(now, true).unwrap();
    assert_eq!(next.kind, ray, "the namespace that had no turn so far");
    assert!(kinds.found(ray.key(), resource(&ray)));
    // One that comes to be served later is found.
    let first = kind("aaa.io", "K0000");
    kinds.set_used(uses([(Arc::clone(&first), "attacker")]), now);
    assert_eq!(kinds.next(now, true), None);
    let later = now + Duration::from_secs(61);
    assert_eq!(kinds.next(later, true).unwrap().kind, first);
}

#[test]
fn a_namespace_has_a_share_of_the_places() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let ray = kind("ray.io", "RayCluster");
    let both = || uses(invented(200).chain([(kind("ray.io", "RayCluster"), "ml")]));
    kinds.set_used(both(), now);
    let mut found = Vec::new();
    while let Some(lookup) = kinds.next(now, true) {
        assert!(kinds.found(lookup.kind.key(), resource(&lookup.kind)));
        found.push(lookup.kind);
    }
    assert_eq!(found.len(), SHARE + 1);
    assert!(found.contains(&ray));
    let crowded = kinds.crowded().unwrap();
    for part in [
        "namespace attacker",
        "183 others",
        "remove the owner references",
    ] {
        assert!(crowded.contains(part), "{crowded}");
    }
    kinds.set_used(uses([(ray, "ml")]), now);
    assert_eq!(kinds.crowded(), None);
}

#[test]
fn a_kind_in_use_takes_the_place_of_one_that_is_not() {
    let mut kinds = Kinds::default();
    let now = Instant::now();
    let names = ["a", "b", "c", "d"];
    let many = (0..MOST_KINDS).map(|n| (kind("x.io", &format!("K{n:02}")), names[n % 4]));
    kinds.set_used(uses(many), now);
    while let Some(lookup) = kinds.next(now, true) {
        assert!(kinds.found(lookup.kind.key(), resource(&lookup.kind)));
    }
    let ray = kind("ray.io", "RayCluster");
    let mut still: Vec<_> = (1..MOST_KINDS)
        .map(|n| (kind("x.io", &format!("K{n:02}")), names[n % 4]))
        .collect();
    still.push((Arc::clone(&ray), "ml"));
    kinds.set_used(uses(still), now);
    assert_eq!(kinds.next(now, true).unwrap().kind, ray);
    assert!(kinds.found(ray.key(), resource(&ray)));
    assert!(kinds.get(&kind("x.io", "K00").key()).is_none());
    assert!(kinds.get(&kind("x.io", "K01").key()).is_some());
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
async fn a_hundred_invented_kinds_leave_everybody_elses_owners_alone() {
    let scene = Scene::start(|kube| {
        wanted(kube);
        for number in 0..100 {
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
    assert!(scene.kube.queries("/apis/aaa.io/v1").len() <= 100);
}

#[tokio::test]
async fn too_many_kinds_that_are_served_are_said_on_the_board() {
    let names: Vec<String> = (0..30).map(|number| format!("K{number:02}")).collect();
    let scene = Scene::start(|kube| {
        wanted(kube);
        for name in &names {
            let plural = name.to_lowercase();
            kube.serve("aaa.io/v1", &plural, name);
            let pod = elsewhere(pod(&format!("x-{plural}")), "aaa");
            kube.put(PODS, owned(pod, "aaa.io/v1", name, "x"));
        }
    })
    .await;
    eventually("said", || {
        let watches = scene.board.watches();
        watches
            .iter()
            .any(|watch| &*watch.name == "owners" && format!("{watch:?}").contains("namespace aaa"))
    })
    .await;
    scene
        .until(|now| owners_of(now, "b") == ["rayclusters.ray.io/ray"])
        .await;
    let followed: BTreeMap<_, _> = scene
        .board
        .watches()
        .into_iter()
        .filter(|watch| watch.name.ends_with(".aaa.io"))
        .map(|watch| (watch.name, watch.lists))
        .collect();
    assert_eq!(followed.len(), SHARE);
    assert!(scene.board.unready().is_empty());
}

#[tokio::test]
async fn an_invented_version_does_not_hide_a_kind() {
    let scene = Scene::start(|kube| {
        wanted(kube);
        kube.document(
            "/apis/ray.io",
            json!({"preferredVersion": {"version": "v2"},
                   "versions": [{"version": "v2"}, {"version": "v1"}]}),
        );
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
    let spelled = super::super::owners::spelled(&odd);
    assert!(!spelled.contains(char::is_control), "{spelled:?}");
    assert!(spelled.ends_with(".x.io"), "{spelled}");
}
