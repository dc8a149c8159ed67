use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::super::clock;
use super::super::pool::KindName;
use super::super::snapshot;
use super::super::state::{Shared, Writer};
use super::super::store::Store;
use super::fixture::{object, owned, owners, owners_of, pod};
use gpu_metrics::inventory::{Inventory, ObjectKind};

const REMEMBER: Duration = Duration::from_secs(600);

/// The state, as watches write it.
struct World(Arc<Shared>);

impl World {
    /// A state with Deployments and their ReplicaSets, `web` and `web-1`.
    fn new() -> Self {
        let world = Self(Arc::default());
        let kinds = [("replicasets", "ReplicaSet"), ("deployments", "Deployment")];
        let uses = kinds.map(|(_, kind)| Arc::new(KindName::new("apps", kind)));
        let mut known = world.0.known.lock();
        known.tables.kinds.set_used(uses.into(), Instant::now());
        for (plural, kind) in kinds {
            let resource = ObjectKind::new(&format!("{plural}.apps"), kind, "apps/v1", true);
            let followed = known
                .tables
                .kinds
                .get_mut(&KindName::new("apps", kind))
                .unwrap();
            followed.resource = Some(resource);
        }
        drop(known);
        world.put(Of::Owners("Deployment"), &object("web"));
        world.put(
            Of::Owners("ReplicaSet"),
            &owned(object("web-1"), "apps/v1", "Deployment", "web"),
        );
        for kind in ["ReplicaSet", "Deployment"] {
            world.writer(Of::Owners(kind)).complete();
        }
        world
    }

    fn writer(&self, of: Of) -> Box<dyn Store> {
        let shared = Arc::clone(&self.0);
        match of {
            Of::Pods => Box::new(Writer::new(shared, |tables| Some(&mut tables.pods))),
            Of::Services => Box::new(Writer::new(shared, |tables| Some(&mut tables.services))),
            Of::Owners(kind) => Box::new(Writer::new(shared, move |tables| {
                let kind = tables.kinds.get_mut(&KindName::new("apps", kind))?;
                Some(&mut kind.objects)
            })),
        }
    }

    fn put(&self, of: Of, object: &Value) {
        let raw = to_raw_value(object).unwrap();
        self.writer(of).put(&raw).unwrap();
    }

    fn remove(&self, of: Of, object: &Value) {
        let raw = to_raw_value(object).unwrap();
        self.writer(of).remove(&raw);
    }

    fn inventory_after(&self, seconds: u64) -> Inventory {
        let now = Instant::now() + Duration::from_secs(seconds);
        snapshot::inventory(&mut self.0.known.lock(), now, REMEMBER).0
    }

    fn inventory(&self) -> Inventory {
        self.inventory_after(0)
    }
}

/// Selects a table.
#[derive(Clone, Copy)]
enum Of {
    Pods,
    Services,
    Owners(&'static str),
}

/// A pod of the ReplicaSet, with a UID.
fn replica(name: &str, uid: &str) -> Value {
    let mut pod = owned(pod(name), "apps/v1", "ReplicaSet", "web-1");
    pod["metadata"]["uid"] = uid.into();
    pod
}

fn departed(inventory: &Inventory) -> Vec<(&str, Vec<String>)> {
    let pods = inventory.departed.iter();
    pods.map(|pod| (&*pod.name, owners(inventory, pod)))
        .collect()
}

const CHAIN: [&str; 2] = ["replicasets.apps/web-1", "deployments.apps/web"];

#[test]
fn a_deleted_pod_keeps_its_owners_for_a_while() {
    let world = World::new();
    world.put(Of::Pods, &replica("a", "1"));
    assert!(world.inventory().departed.is_empty());
    world.remove(Of::Pods, &replica("a", "1"));
    let inventory = world.inventory();
    assert!(inventory.pods.is_empty());
    assert_eq!(
        departed(&inventory),
        [("a", CHAIN.map(str::to_owned).to_vec())]
    );
    assert_eq!(inventory.departed[0].labels.get("app"), Some("infer"));
    assert!(world.inventory_after(601).departed.is_empty());
}

#[test]
fn a_pod_without_an_end_time_ends_when_the_watch_reports_its_deletion() {
    let world = World::new();
    world.put(Of::Pods, &replica("a", "1"));
    assert_eq!(world.inventory().pods[0].ended, None);
    let before = clock::now();
    world.remove(Of::Pods, &replica("a", "1"));
    let ended = world.inventory().departed[0].ended;
    assert!(ended >= Some(before) && ended <= Some(clock::now()));
    assert_eq!(world.inventory_after(60).departed[0].ended, ended);
}

#[test]
fn the_time_of_the_first_complete_list_stays() {
    let world = World::new();
    assert_eq!(world.inventory().listed, None);
    let mut list = world.writer(Of::Pods);
    list.begin();
    list.complete();
    let listed = world.inventory().listed;
    assert!(listed.is_some());
    list.begin();
    list.complete();
    assert_eq!(world.inventory().listed, listed);
}

#[test]
fn pods_with_gpus_report_the_addresses_of_their_nodes() {
    let world = World::new();
    for (uid, node, host) in [
        ("1", "n1", "10.0.0.1"),
        ("2", "n2", "10.0.0.2"),
        ("3", "n1", "10.0.0.1"),
    ] {
        let mut pod = replica(&format!("set-{uid}"), uid);
        pod["spec"]["nodeName"] = node.into();
        pod["status"]["hostIP"] = host.into();
        world.put(Of::Pods, &pod);
    }
    let inventory = world.inventory();
    let told = inventory.node_addresses.iter();
    let told: Vec<(&str, &str)> = told.map(|(address, node)| (&**address, &**node)).collect();
    assert_eq!(told, [("10.0.0.1", "n1"), ("10.0.0.2", "n2")]);
}

#[test]
fn a_workload_without_pods_is_in_the_inventory() {
    let world = World::new();
    let mut old = object("old");
    old["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z".into();
    world.put(Of::Owners("Deployment"), &old);
    let inventory = world.inventory();
    let names = inventory.workloads.iter().map(|workload| &*workload.name);
    assert_eq!(names.collect::<Vec<_>>(), ["old", "web"]);
    assert!(inventory.workloads[0].created.is_some());
}

#[test]
fn a_pod_missing_from_a_new_list_is_remembered_like_a_deleted_one() {
    let world = World::new();
    world.put(Of::Pods, &replica("a", "1"));
    world.put(Of::Pods, &replica("b", "2"));
    let mut list = world.writer(Of::Pods);
    list.begin();
    world.put(Of::Pods, &replica("b", "2"));
    list.complete();
    let inventory = world.inventory();
    assert_eq!(
        departed(&inventory),
        [("a", CHAIN.map(str::to_owned).to_vec())]
    );
    assert_eq!(inventory.pods.len(), 1);
}

#[test]
fn pods_of_one_name_are_all_remembered_the_last_deleted_first() {
    let world = World::new();
    for (uid, node) in [("1", "n1"), ("2", "n2"), ("3", "n3")] {
        let mut pod = replica("set-0", uid);
        pod["spec"]["nodeName"] = node.into();
        world.put(Of::Pods, &pod);
    }
    let inventory = world.inventory();
    assert_eq!(
        inventory.pod("ml", "set-0").unwrap().node.as_deref(),
        Some("n3")
    );
    let nodes = inventory.departed.iter().map(|pod| pod.node.as_deref());
    assert_eq!(nodes.collect::<Vec<_>>(), [Some("n2"), Some("n1")]);
}

#[test]
fn a_deleted_pod_that_comes_back_is_not_remembered_as_deleted() {
    let world = World::new();
    world.put(Of::Pods, &replica("a", "1"));
    world.remove(Of::Pods, &replica("a", "1"));
    world.put(Of::Pods, &replica("a", "1"));
    assert!(world.inventory().departed.is_empty());
    world.remove(Of::Pods, &replica("a", "1"));
    assert_eq!(world.inventory().departed.len(), 1);
}

#[test]
fn the_controller_of_a_deleted_owner_is_still_an_owner() {
    let world = World::new();
    world.put(Of::Pods, &replica("a", "1"));
    world.remove(Of::Owners("ReplicaSet"), &object("web-1"));
    world.remove(Of::Pods, &replica("a", "1"));
    let kept = [("a", vec!["deployments.apps/web".to_owned()])];
    assert_eq!(departed(&world.inventory()), kept);
    // A new object of the same name does not inherit samples.
    let mut again = object("web");
    again["metadata"]["uid"] = "again".into();
    world.put(Of::Owners("Deployment"), &again);
    assert_eq!(departed(&world.inventory()), [("a", vec![])]);
}

#[test]
fn a_pod_that_ends_keeps_its_owners() {
    let world = World::new();
    let mut ending = replica("a", "1");
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T10:05:00Z".into();
    world.put(Of::Pods, &ending);
    let inventory = world.inventory();
    assert!(!inventory.pods[0].is_live());
    assert_eq!(owners_of(&inventory, "a"), CHAIN);
}

#[test]
fn services_select_a_deleted_pod_by_its_last_labels() {
    let world = World::new();
    world.put(Of::Pods, &replica("a", "1"));
    world.remove(Of::Pods, &replica("a", "1"));
    let service = json!({"metadata": {"name": "front", "namespace": "ml"},
                         "spec": {"selector": {"app": "infer"}}});
    world.put(Of::Services, &service);
    let inventory = world.inventory();
    let owners = owners(&inventory, &inventory.departed[0]);
    assert!(owners.contains(&"services/front".to_owned()), "{owners:?}");
}

#[test]
fn a_deleted_pod_that_had_no_node_is_not_remembered() {
    let world = World::new();
    let mut pending = replica("a", "1");
    pending["spec"]["nodeName"] = Value::Null;
    world.put(Of::Pods, &pending);
    world.remove(Of::Pods, &pending);
    assert!(world.inventory().departed.is_empty());
}
