//! Gives devices and claims to objects.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::time::Timestamp;

use super::{Holder, KindTable, Layout, Member, Object, PodId};
use crate::inventory::{ClusterObject, Inventory, InventoryOrigin, ObjectKind, Startup};

/// The place of the pods in the tables under construction.
const PODS: usize = 0;

/// An object that pods or devices share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Group<'a> {
    Namespace(&'a Arc<str>),
    /// Its place in the inventory.
    Workload(u32),
    Node(&'a Arc<str>),
}

/// Objects under construction.
struct Objects<'a> {
    inventory: &'a Inventory,
    tables: Vec<KindTable>,
    /// The table and the place of each group; `None`: no such object exists.
    places: HashMap<Group<'a>, Option<(usize, usize)>>,
}

impl Layout {
    pub(super) fn find_objects(&mut self, inventory: &Inventory) {
        let mut objects = Objects::of(inventory);
        let mut cluster = Object {
            is_place: true,
            created: Timestamp::MIN,
            ..Object::default()
        };
        for (id, pod) in (0..).zip(&self.pods) {
            let members = pod.claims.iter().map(|claim| Member {
                device: self.claims[*claim as usize].device,
                claim: Some(*claim),
            });
            let expects = pod.is_live && (pod.requested.is_some() || pod.unseen_shared > 0);
            let expected = expects.then_some(id);
            objects.add_pod(pod, &members.collect::<Vec<_>>(), expected);
            cluster.pods.extend(expected);
        }
        let mut place = 0;
        for devices in self.devices.chunk_by(|one, other| one.node == other.node) {
            let members = (place..).zip(devices).map(|(device, _)| Member {
                device,
                claim: None,
            });
            let start = cluster.members.len();
            cluster.members.extend(members);
            place += u32::try_from(devices.len()).unwrap_or(u32::MAX);
            if let Some(node) = &devices[0].node {
                objects.add(Group::Node(node), &cluster.members[start..], None);
            }
        }
        self.cluster = cluster;
        self.tables = objects.finish();
    }
}

impl<'a> Objects<'a> {
    fn of(inventory: &'a Inventory) -> Self {
        let table = |kind| KindTable {
            kind,
            objects: Vec::new(),
        };
        let own = [
            ObjectKind::pod(),
            ObjectKind::namespace(),
            ObjectKind::node(),
        ];
        let mut tables: Vec<KindTable> = own.map(table).into();
        // A kind is served while the cluster has objects of it.
        for workload in &inventory.workloads {
            if !tables.iter().any(|it| it.kind == workload.kind) {
                tables.push(table(workload.kind.clone()));
            }
        }
        Self {
            inventory,
            tables,
            places: HashMap::new(),
        }
    }

    /// Adds the devices of a pod, or the GPUs that it expects, to its objects.
    fn add_pod(&mut self, holder: &'a Holder, members: &[Member], expected: Option<PodId>) {
        if members.is_empty() && expected.is_none() {
            return;
        }
        let pod = &holder.pod;
        if holder.is_live && !members.is_empty() {
            self.tables[PODS].objects.push(Object {
                namespace: Some(Arc::clone(&pod.namespace)),
                name: Arc::clone(&pod.name),
                labels: pod.labels.clone(),
                is_place: false,
                is_starting: pod.startup == Startup::Starting,
                members: members.to_vec(),
                pods: expected.into_iter().collect(),
                created: match pod.startup {
                    Startup::ReadySince(ready) => ready.max(holder.started()),
                    Startup::Starting | Startup::Unknown => holder.started(),
                },
            });
        }
        self.add(Group::Namespace(&pod.namespace), members, expected);
        for workload in &pod.owners {
            self.add(Group::Workload(*workload), members, expected);
        }
        // A node has all its devices, held or free.
        if let Some(node) = pod.node.as_ref().filter(|_| expected.is_some()) {
            self.add(Group::Node(node), &[], expected);
        }
    }

    fn add(&mut self, group: Group<'a>, members: &[Member], expected: Option<PodId>) {
        let place = match self.places.get(&group) {
            Some(known) => *known,
            None => {
                let place = self.object(group).map(|(table, object)| {
                    self.tables[table].objects.push(object);
                    (table, self.tables[table].objects.len() - 1)
                });
                self.places.insert(group, place);
                place
            }
        };
        if let Some((table, place)) = place {
            let object = &mut self.tables[table].objects[place];
            object.members.extend(members);
            object.pods.extend(expected);
        }
    }

    /// The empty object of a group, and its table.
    fn object(&self, group: Group<'a>) -> Option<(usize, Object)> {
        let inventory = self.inventory;
        let of = |objects: &'a [ClusterObject], name: &str| {
            ClusterObject::find(objects, name).map(|it| (&it.labels, it.created))
        };
        let (kind, namespace, name, known) = match group {
            Group::Namespace(name) => {
                let known = of(&inventory.namespaces, name);
                (ObjectKind::namespace(), None, name, known)
            }
            Group::Node(name) => (ObjectKind::node(), None, name, of(&inventory.nodes, name)),
            Group::Workload(place) => {
                let own = inventory.workloads.get(place as usize)?;
                let known = Some((&own.labels, own.created));
                (own.kind.clone(), Some(&own.namespace), &own.name, known)
            }
        };
        let table = self.tables.iter().position(|it| it.kind == kind)?;
        if known.is_none() && inventory.authority == InventoryOrigin::Cluster {
            return None;
        }
        let (labels, created) = known.unzip();
        let object = Object {
            namespace: namespace.cloned(),
            name: Arc::clone(name),
            labels: labels.cloned().unwrap_or_default(),
            is_place: matches!(group, Group::Node(_)),
            created: created.flatten().unwrap_or(Timestamp::MIN),
            ..Object::default()
        };
        Some((table, object))
    }

    fn finish(mut self) -> Vec<KindTable> {
        for table in &mut self.tables {
            let objects = &mut table.objects;
            objects.retain(|object| !object.members.is_empty());
            objects.iter_mut().for_each(|it| it.members.sort_unstable());
            objects.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        }
        self.tables.sort_by(|a, b| a.kind.cmp(&b.kind));
        self.tables
    }
}
