//! Inventories of the watched objects, after changes in an order.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::clock;
use super::super::objects::WatchSettings;
use super::super::pool::KindName;
use super::super::snapshot::snapshot;
use super::super::state::{Change, Collection, Event, WatchedObjects};
use super::fixture::{deleted, object, owned, owners, owners_of, pod, put};
use gpu_metrics::inventory::{Inventory, ObjectKind};

struct World(WatchedObjects);

impl World {
    /// Deployments and their ReplicaSets, `web` and `web-1`.
    fn new() -> Self {
        let mut world = Self(WatchedObjects::new(WatchSettings::default()));
        for collection in [Collection::Namespaces, Collection::Nodes] {
            world.apply(collection, Event::Listed);
        }
        world.serve("apps", "replicasets", "ReplicaSet");
        world.serve("apps", "deployments", "Deployment");
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

    fn serve(&mut self, group: &str, plural: &str, kind: &str) {
        let name = KindName::new(group, kind);
        self.0.kinds.entry(name.clone()).or_default();
        let (resource, version) = (format!("{plural}.{group}"), format!("{group}/v1"));
        let resource = ObjectKind::new(&resource, kind, &version, true);
        self.apply(Collection::Kind(name), Event::Served(resource));
    }

    /// An event of the objects of a kind in `apps`.
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

/// A pod of the ReplicaSet on a node.
fn on_node(name: &str, uid: &str, node: &str, host: &str) -> Value {
    let mut pod = replica(name, uid);
    pod["spec"]["nodeName"] = node.into();
    pod["status"]["hostIP"] = host.into();
    pod
}

fn departed(inventory: &Inventory) -> Vec<(&str, Vec<String>)> {
    let departed = inventory.departed.iter();
    let departed = departed.map(|pod| (&*pod.name, owners(inventory, pod)));
    departed.collect()
}

const CHAIN: [&str; 2] = ["replicasets.apps/web-1", "deployments.apps/web"];

#[test]
fn a_deleted_pod_keeps_its_owners_and_the_time_of_its_end_for_a_while() {
    let mut world = World::new();
    world.put(&replica("a", "1"));
    let inventory = world.inventory();
    assert!(inventory.departed.is_empty());
    assert_eq!(inventory.pods[0].ended, None);
    let before = clock::now();
    world.remove(&replica("a", "1"));
    let inventory = world.inventory();
    assert!(inventory.pods.is_empty());
    let kept = ("a", CHAIN.map(str::to_owned).to_vec());
    assert_eq!(departed(&inventory), [kept]);
    let known = &inventory.departed[0];
    assert_eq!(known.labels.get("app"), Some("infer"));
    assert!(known.ended >= Some(before) && known.ended <= Some(clock::now()));
    assert_eq!(world.inventory_after(60).departed[0].ended, known.ended);
    assert!(world.inventory_after(601).departed.is_empty());
}

#[test]
fn a_pod_that_a_new_list_does_not_have_is_remembered_until_it_is_back() {
    let mut world = World::new();
    let mut list = |names: &[&str]| {
        world.pods(Event::ListBegins);
        for name in names {
            world.put(&replica(name, name));
        }
        world.pods(Event::Listed);
        world.inventory()
    };
    let first = list(&["a", "b"]);
    assert!(first.listed.is_some());
    let inventory = list(&["b"]);
    assert_eq!(inventory.listed, first.listed, "the first one's");
    let kept = ("a", CHAIN.map(str::to_owned).to_vec());
    assert_eq!(departed(&inventory), [kept]);
    assert_eq!(inventory.pods.len(), 1);
    assert!(list(&["a", "b"]).departed.is_empty());
    world.remove(&replica("a", "a"));
    assert_eq!(world.inventory().departed.len(), 1);
}

#[test]
fn pods_of_one_name_are_all_remembered_the_last_deleted_first() {
    let mut world = World::new();
    assert_eq!(world.inventory().listed, None);
    for (uid, node, host) in [("1", "n1", "a"), ("2", "n2", "b"), ("3", "n3", "c")] {
        world.put(&on_node("set-0", uid, node, host));
    }
    let inventory = world.inventory();
    let present = inventory.pod("ml", "set-0").unwrap();
    assert_eq!(present.node.as_deref(), Some("n3"));
    let nodes = inventory.departed.iter().map(|pod| pod.node.as_deref());
    assert_eq!(nodes.collect::<Vec<_>>(), [Some("n2"), Some("n1")]);
}

#[test]
fn pods_with_gpus_report_the_addresses_of_their_nodes() {
    let mut world = World::new();
    for (name, node, host) in [
        ("a", "n1", "10.0.0.1"),
        ("b", "n2", "10.0.0.2"),
        ("c", "n1", "10.0.0.1"),
    ] {
        world.put(&on_node(name, name, node, host));
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

#[test]
fn an_owner_of_the_same_name_with_another_uid_is_not_the_owner() {
    let mut world = World::new();
    let mut pod = replica("a", "1");
    pod["metadata"]["ownerReferences"][1]["uid"] = "earlier".into();
    world.put(&pod);
    assert_eq!(owners_of(&world.inventory(), "a"), [""; 0]);
}

#[test]
fn only_kinds_that_own_gpu_pods_are_followed() {
    let mut world = World::new();
    let busy = owned(pod("b"), "batch/v1", "Job", "sweep");
    let mut idle = busy.clone();
    idle["spec"]["containers"] = json!([{"name": "c"}]);
    let job = KindName::new("batch", "Job");
    for (pod, is_followed) in [(idle, false), (busy, true)] {
        world.put(&pod);
        world.inventory();
        assert_eq!(world.0.kinds.contains_key(&job), is_followed);
    }
}

#[test]
fn a_chain_ends_at_a_kind_that_is_not_listed_whatever_version_a_reference_has() {
    let mut world = World::new();
    world.serve("ray.io", "rayclusters", "RayCluster");
    let set = owned(object("ray-1"), "ray.io/v1alpha1", "RayCluster", "cluster");
    world.of("ReplicaSet", put(&set));
    world.put(&owned(pod("a"), "apps/v1", "ReplicaSet", "ray-1"));
    let cluster = KindName::new("ray.io", "RayCluster");
    let is_forbidden = Event::Failed { is_forbidden: true };
    world.apply(Collection::Kind(cluster), is_forbidden);
    let inventory = world.inventory();
    // The name is known from the reference.
    let chain = ["replicasets.apps/ray-1", "rayclusters.ray.io/cluster"];
    assert_eq!(owners_of(&inventory, "a"), chain);
    assert!(inventory.workloads[1].labels.is_empty());
}

#[test]
fn cyclic_references_end_and_pods_of_a_controlling_pod_have_its_controller() {
    let mut world = World::new();
    let cyclic = owned(object("web"), "apps/v1", "ReplicaSet", "web-1");
    world.of("Deployment", put(&cyclic));
    world.put(&replica("a", "a"));
    world.put(&owned(pod("executor"), "v1", "Pod", "a"));
    let inventory = world.inventory();
    let chain = owners_of(&inventory, "a");
    assert_eq!(chain.len(), 8);
    assert_eq!(chain[..2], CHAIN);
    assert_eq!(owners_of(&inventory, "executor")[..2], CHAIN);
}
