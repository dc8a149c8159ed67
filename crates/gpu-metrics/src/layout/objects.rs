//! Gives devices and claims to objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::time::Timestamp;

use super::{ClaimId, KindTable, Layout, Member, Object, PodId, Scope};
use crate::claim::Holder;
use crate::inventory::{ClusterObject, Inventory, InventoryOrigin, ObjectKind};

impl Layout {
    pub(super) fn find_objects(&mut self, inventory: &Inventory) {
        let mut building = Building::default();
        let mut by_node: HashMap<Option<Arc<str>>, Vec<u32>> = HashMap::new();
        for (id, pod) in (0..).zip(&self.pods) {
            let members: Vec<Member> = pod.claims.iter().map(|claim| self.member(*claim)).collect();
            let expects = pod.is_live && (pod.requested.is_some() || pod.unseen_shared > 0);
            building.add_pod(inventory, (id, pod), &members, expects);
        }
        for (place, device) in (0..).zip(&self.devices) {
            let member = Member {
                device: place,
                claim: None,
            };
            by_node.entry(device.node.clone()).or_default().push(place);
            building.cluster.members.push(member);
            let is_series = inventory.authority == InventoryOrigin::Series;
            if let Some(node) = &device.node
                && (is_series || ClusterObject::find(&inventory.nodes, node).is_some())
            {
                building.node(inventory, node).members.push(member);
            }
        }
        self.by_node = by_node;
        self.cluster = std::mem::take(&mut building.cluster);
        self.cluster.scope = Scope::Devices;
        self.cluster.created = Timestamp::MIN;
        self.tables = building.finish(inventory);
    }

    fn member(&self, claim: ClaimId) -> Member {
        Member {
            device: self.claims[claim as usize].device,
            claim: Some(claim),
        }
    }
}

/// Objects under construction.
#[derive(Default)]
struct Building {
    pods: Vec<Object>,
    namespaces: BTreeMap<Arc<str>, Object>,
    nodes: BTreeMap<Arc<str>, Object>,
    workloads: BTreeMap<u32, Object>,
    cluster: Object,
}

impl Building {
    fn add_pod(
        &mut self,
        inventory: &Inventory,
        (id, pod): (PodId, &Holder),
        members: &[Member],
        expects: bool,
    ) {
        if members.is_empty() && !expects {
            return;
        }
        let expected = expects.then_some(id);
        if pod.is_live && !members.is_empty() {
            let listed = inventory.pod(&pod.namespace, &pod.name);
            self.pods.push(Object {
                namespace: Some(Arc::clone(&pod.namespace)),
                name: Arc::clone(&pod.name),
                labels: listed.map(|it| it.labels.clone()).unwrap_or_default(),
                scope: Scope::Pod,
                members: members.to_vec(),
                pods: expected.into_iter().collect(),
                created: pod.started,
            });
        }
        let namespace = ClusterObject::find(&inventory.namespaces, &pod.namespace);
        if namespace.is_some() || inventory.authority == InventoryOrigin::Series {
            let object = self.namespaces.entry(Arc::clone(&pod.namespace));
            let object = object.or_insert_with(|| of_cluster(&pod.namespace, namespace));
            object.members.extend(members);
            object.pods.extend(expected);
        }
        for place in &pod.owners {
            let Some(workload) = inventory.workloads.get(*place as usize) else {
                continue;
            };
            let object = self.workloads.entry(*place).or_insert_with(|| Object {
                namespace: Some(Arc::clone(&workload.namespace)),
                name: Arc::clone(&workload.name),
                labels: workload.labels.clone(),
                created: workload.created.unwrap_or(Timestamp::MIN),
                ..Object::default()
            });
            object.members.extend(members);
            object.pods.extend(expected);
        }
        self.cluster.pods.extend(expected);
        if let (Some(node), Some(_)) = (&pod.node, expected) {
            self.node(inventory, node).pods.push(id);
        }
    }

    fn node(&mut self, inventory: &Inventory, name: &Arc<str>) -> &mut Object {
        let object = self.nodes.entry(Arc::clone(name));
        object.or_insert_with(|| Object {
            scope: Scope::Devices,
            ..of_cluster(name, ClusterObject::find(&inventory.nodes, name))
        })
    }

    fn finish(self, inventory: &Inventory) -> Vec<KindTable> {
        let table = |kind, objects: Vec<Object>| KindTable { kind, objects };
        let mut tables = vec![
            table(ObjectKind::pod(), self.pods),
            table(
                ObjectKind::namespace(),
                self.namespaces.into_values().collect(),
            ),
            table(ObjectKind::node(), self.nodes.into_values().collect()),
        ];
        for (place, object) in self.workloads {
            let kind = &inventory.workloads[place as usize].kind;
            let known = tables.iter().position(|it| it.kind == *kind);
            let at = known.unwrap_or_else(|| {
                tables.push(table(kind.clone(), Vec::new()));
                tables.len() - 1
            });
            tables[at].objects.push(object);
        }
        // A kind is served while the cluster has objects of it.
        for workload in &inventory.workloads {
            if !tables.iter().any(|it| it.kind == workload.kind) {
                tables.push(table(workload.kind.clone(), Vec::new()));
            }
        }
        for table in &mut tables {
            table.objects.retain(|object| !object.members.is_empty());
            table
                .objects
                .iter_mut()
                .for_each(|it| it.members.sort_unstable());
            let objects = &mut table.objects;
            objects.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        }
        tables.sort_by(|a, b| a.kind.cmp(&b.kind));
        tables
    }
}

fn of_cluster(name: &Arc<str>, object: Option<&ClusterObject>) -> Object {
    Object {
        name: Arc::clone(name),
        labels: object.map(|it| it.labels.clone()).unwrap_or_default(),
        created: object.and_then(|it| it.created).unwrap_or(Timestamp::MIN),
        ..Object::default()
    }
}
