use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::clock;
use super::super::objects::WatchSettings;
use super::super::pool::KindName;
use super::super::snapshot::snapshot;
use super::super::state::{Change, Collection, Event, WatchedObjects};
use super::fixture::{deleted, object, owned, owners, pod, put};
use gpu_metrics::inventory::{Inventory, ObjectKind};

/// The watched objects, in an order of changes.
struct World(WatchedObjects);

impl World {
    /// Deployments and their ReplicaSets, `web` and `web-1`.
    fn new() -> Self {
        let mut world = Self(WatchedObjects::new(WatchSettings::default()));
        for event in [Event::ListBegins, Event::Listed] {
            world.apply(Collection::Namespaces, event);
        }
        for event in [Event::ListBegins, Event::Listed] {
            world.apply(Collection::Nodes, event);
        }
        for (plural, kind) in [("replicasets", "ReplicaSet"), ("deployments", "Deployment")] {
            let name = KindName::new("apps", kind);
            world.0.kinds.entry(name.clone()).or_default();
            let resource = ObjectKind::new(&format!("{plural}.apps"), kind, "apps/v1", true);
            world.apply(Collection::Kind(name), Event::Served(resource));
        }
        world.of("Deployment", put(&object("web")));
        let set = owned(object("web-1"), "apps/v1", "Deployment", "web");
        world.of("ReplicaSet", put(&set));
        for kind in ["ReplicaSet", "Deployment"] {
            world.of(kind, Event::Listed);
        }
        world
    }

    fn apply(&mut self, collection: Collection, event: Event) {
        self.0.apply(Change { collection, event });
    }

    fn pods(&mut self, event: Event) {
        self.apply(Collection::Pods, event);
    }

    /// An event of the owners of a kind.
    fn of(&mut self, kind: &str, event: Event) {
        let kind = Collection::Kind(KindName::new("apps", kind));
        self.apply(kind, event);
    }

    fn put(&mut self, pod: &Value) {
        self.pods(put(pod));
    }

    fn remove(&mut self, pod: &Value) {
        self.pods(deleted(pod));
    }

    fn inventory_after(&mut self, seconds: u64) -> Inventory {
        let now = Instant::now() + Duration::from_secs(seconds);
        self.0.pods.complete = true;
        snapshot(&mut self.0, now).unwrap()
    }

    fn inventory(&mut self) -> Inventory {
        self.inventory_after(0)
    }
}

/// A pod of the ReplicaSet, with a UID.
fn replica(name: &str, uid: &str) -> Value {
    let mut pod = owned(pod(name), "apps/v1", "ReplicaSet", "web-1");
    pod["metadata"]["uid"] = uid.into();
    pod
}

fn departed(inventory: &Inventory) -> Vec<(&str, Vec<String>)> {
    let departed = inventory.departed.iter();
    let departed = departed.map(|pod| (&*pod.name, owners(inventory, pod)));
    departed.collect()
}

const CHAIN: [&str; 2] = ["replicasets.apps/web-1", "deployments.apps/web"];

#[test]
fn a_deleted_pod_keeps_its_owners_for_a_while() {
    let mut world = World::new();
    world.put(&replica("a", "1"));
    assert!(world.inventory().departed.is_empty());
    world.remove(&replica("a", "1"));
    let inventory = world.inventory();
    assert!(inventory.pods.is_empty());
    let kept = ("a", CHAIN.map(str::to_owned).to_vec());
    assert_eq!(departed(&inventory), [kept]);
    assert_eq!(inventory.departed[0].labels.get("app"), Some("infer"));
    assert!(world.inventory_after(601).departed.is_empty());
}

#[test]
fn a_pod_without_an_end_time_ends_when_the_watch_reports_its_deletion() {
    let mut world = World::new();
    world.put(&replica("a", "1"));
    assert_eq!(world.inventory().pods[0].ended, None);
    let before = clock::now();
    world.remove(&replica("a", "1"));
    let ended = world.inventory().departed[0].ended;
    assert!(ended >= Some(before) && ended <= Some(clock::now()));
    assert_eq!(world.inventory_after(60).departed[0].ended, ended);
}

#[test]
fn the_time_of_the_first_complete_list_stays() {
    let mut world = World::new();
    assert_eq!(world.inventory().listed, None);
    world.pods(Event::ListBegins);
    world.pods(Event::Listed);
    let listed = world.inventory().listed;
    assert!(listed.is_some());
    world.pods(Event::ListBegins);
    world.pods(Event::Listed);
    assert_eq!(world.inventory().listed, listed);
}

#[test]
fn pods_with_gpus_report_the_addresses_of_their_nodes() {
    let mut world = World::new();
    for (uid, node, host) in [
        ("1", "n1", "10.0.0.1"),
        ("2", "n2", "10.0.0.2"),
        ("3", "n1", "10.0.0.1"),
    ] {
        let mut pod = replica(&format!("set-{uid}"), uid);
        pod["spec"]["nodeName"] = node.into();
        pod["status"]["hostIP"] = host.into();
        world.put(&pod);
    }
    let inventory = world.inventory();
    let told = inventory.node_addresses.iter();
    let told: Vec<(&str, &str)> = told.map(|(address, node)| (&**address, &**node)).collect();
    assert_eq!(told, [("10.0.0.1", "n1"), ("10.0.0.2", "n2")]);
}

#[test]
fn a_workload_without_pods_is_in_the_inventory() {
    let mut world = World::new();
    let mut old = object("old");
    old["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z".into();
    world.of("Deployment", put(&old));
    let inventory = world.inventory();
    let names = inventory.workloads.iter().map(|workload| &*workload.name);
    assert_eq!(names.collect::<Vec<_>>(), ["old", "web"]);
    assert!(inventory.workloads[0].created.is_some());
}

#[test]
fn a_pod_missing_from_a_new_list_is_remembered_like_a_deleted_one() {
    let mut world = World::new();
    world.put(&replica("a", "1"));
    world.put(&replica("b", "2"));
    world.pods(Event::ListBegins);
    world.put(&replica("b", "2"));
    world.pods(Event::Listed);
    let inventory = world.inventory();
    let kept = ("a", CHAIN.map(str::to_owned).to_vec());
    assert_eq!(departed(&inventory), [kept]);
    assert_eq!(inventory.pods.len(), 1);
}

#[test]
fn pods_of_one_name_are_all_remembered_the_last_deleted_first() {
    let mut world = World::new();
    for (uid, node) in [("1", "n1"), ("2", "n2"), ("3", "n3")] {
        let mut pod = replica("set-0", uid);
        pod["spec"]["nodeName"] = node.into();
        world.put(&pod);
    }
    let inventory = world.inventory();
    let present = inventory.pod("ml", "set-0").unwrap();
    assert_eq!(present.node.as_deref(), Some("n3"));
    let nodes = inventory.departed.iter().map(|pod| pod.node.as_deref());
    assert_eq!(nodes.collect::<Vec<_>>(), [Some("n2"), Some("n1")]);
}

#[test]
fn a_deleted_pod_that_comes_back_is_not_remembered_as_deleted() {
    let mut world = World::new();
    world.put(&replica("a", "1"));
    world.remove(&replica("a", "1"));
    world.put(&replica("a", "1"));
    assert!(world.inventory().departed.is_empty());
    world.remove(&replica("a", "1"));
    assert_eq!(world.inventory().departed.len(), 1);
}

#[test]
fn the_controller_of_a_deleted_owner_is_still_an_owner() {
    let mut world = World::new();
    world.put(&replica("a", "1"));
    world.of("ReplicaSet", deleted(&object("web-1")));
    world.remove(&replica("a", "1"));
    let kept = [("a", vec!["deployments.apps/web".to_owned()])];
    assert_eq!(departed(&world.inventory()), kept);
    // A new object of the same name does not inherit samples.
    let mut again = object("web");
    again["metadata"]["uid"] = "again".into();
    world.of("Deployment", put(&again));
    assert_eq!(departed(&world.inventory()), [("a", vec![])]);
}

#[test]
fn a_deleted_pod_that_had_no_node_is_not_remembered() {
    let mut world = World::new();
    let mut pending = replica("a", "1");
    pending["spec"]["nodeName"] = Value::Null;
    world.put(&pending);
    world.remove(&pending);
    assert!(world.inventory().departed.is_empty());
}
