//! Collects the objects and their rows.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::super::grid::RowId;
use super::super::inventory::InventoryOrigin;
use super::super::inventory::{ClusterObject, Inventory, ObjectKind, Pod};
use super::super::series::Owner;
use super::claim::node_of;
use super::exporters::Exporters;
use super::names::Workloads;
use super::resolved::ResolvedRow;
use super::{Attribution, KindTable, Object, RowFacts};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// Labels and creation of an object.
type Facts = (Labels, Option<Timestamp>);

/// Objects under construction.
pub(super) struct Building<'a> {
    pub(super) inventory: &'a Inventory,
    /// By the number of the pod: the inventory's pods, and then others that rows name.
    pub(super) pods: Vec<Option<Object>>,
    pub(super) namespaces: HashMap<&'a str, Object>,
    pub(super) nodes: HashMap<&'a str, Object>,
    /// In the order of the inventory's workloads.
    pub(super) workloads: Vec<Option<Object>>,
    pub(super) cluster: Object,
    /// Finds workloads of pods that the server has not seen.
    by_name: OnceCell<Workloads<'a>>,
}

impl<'a> Building<'a> {
    pub(super) fn new(inventory: &'a Inventory, pods: usize) -> Self {
        let none = |objects| std::iter::repeat_with(|| None).take(objects).collect();
        Self {
            inventory,
            pods: none(pods),
            namespaces: HashMap::new(),
            nodes: HashMap::with_capacity(inventory.nodes.len()),
            workloads: none(inventory.workloads.len()),
            cluster: Object {
                created: Timestamp::MIN,
                ..Object::default()
            },
            by_name: OnceCell::new(),
        }
    }

    pub(super) fn place(
        &mut self,
        resolved: &ResolvedRow<'a>,
        facts: &RowFacts,
        pod: Option<&'a Pod>,
        exporters: &Exporters<'_>,
    ) {
        let (id, inventory) = (resolved.id, self.inventory);
        if !matches!(
            facts.attribution,
            Attribution::Conflict | Attribution::Foreign
        ) {
            self.cluster.members.push(id);
            if let Some(node) = node_of(resolved, pod, inventory.authority, exporters) {
                let of_node = || Object {
                    of_pods: false,
                    ..Object::new(None, node, facts_of(&inventory.nodes, node))
                };
                self.nodes.entry(node).or_insert_with(of_node).add(id);
            }
        }
        let (Attribution::Held | Attribution::Gone, Some(owner)) =
            (facts.attribution, resolved.owner)
        else {
            return;
        };
        let namespace = &owner.namespace;
        if facts.attribution == Attribution::Held
            && let Some(object) = resolved
                .number
                .and_then(|it| self.pods.get_mut(it as usize))
        {
            let labels = || pod.map(|pod| pod.labels.clone()).unwrap_or_default();
            let of_pod = || Object {
                one_pod: true,
                ..Object::new(Some(namespace), &owner.pod, (labels(), None))
            };
            object.get_or_insert_with(of_pod).add(id);
        }
        if inventory.authority == InventoryOrigin::Series
            || ClusterObject::find(&inventory.namespaces, namespace).is_some()
        {
            let facts = || facts_of(&inventory.namespaces, namespace);
            let object = self.namespaces.entry(namespace);
            let object = object.or_insert_with(|| Object::new(None, namespace, facts()));
            object.add(id);
        }
        self.place_workloads(id, owner, pod);
    }

    /// Adds a row to the workloads of its pod: its controllers, or otherwise those that
    /// the pod's name indicates.
    fn place_workloads(&mut self, id: RowId, owner: &Owner, pod: Option<&'a Pod>) {
        let inventory = self.inventory;
        let by_name = || self.by_name.get_or_init(|| Workloads::of(inventory));
        let by_name = match pod {
            Some(_) => Vec::new(),
            None => by_name().of_pod(&owner.namespace, &owner.pod),
        };
        for index in pod.map_or(by_name.as_slice(), |pod| &pod.owners) {
            let index = *index as usize;
            if let Some(object) = self.workloads.get_mut(index) {
                let workload = &inventory.workloads[index];
                let facts = || (workload.labels.clone(), workload.created);
                let namespace = Some(&workload.namespace);
                let object =
                    object.get_or_insert_with(|| Object::new(namespace, &workload.name, facts()));
                object.add(id);
            }
        }
    }

    /// Sorts the rows of all objects. `order` has all rows in the order of their devices.
    pub(super) fn sort_members(&mut self, order: &[RowId]) {
        let slots = order.iter().map(|row| row.0 as usize + 1).max();
        let mut places = vec![u32::MAX; slots.unwrap_or(0)];
        for (place, row) in (0..).zip(order) {
            places[row.0 as usize] = place;
        }
        let named = self.pods.iter_mut().chain(&mut self.workloads).flatten();
        let others = self.namespaces.values_mut().chain(self.nodes.values_mut());
        for object in named.chain(others).chain([&mut self.cluster]) {
            let rows = &mut object.members;
            rows.sort_unstable_by_key(|row| places[row.0 as usize]);
        }
    }

    pub(super) fn finish(self) -> Vec<KindTable> {
        // The core kinds always exist, with or without objects.
        let pods = self.pods.into_iter().flatten().collect();
        let mut tables = vec![
            KindTable::new(ObjectKind::pod(), pods),
            KindTable::new(
                ObjectKind::namespace(),
                self.namespaces.into_values().collect(),
            ),
            KindTable::new(ObjectKind::node(), self.nodes.into_values().collect()),
        ];
        for (workload, object) in self.inventory.workloads.iter().zip(self.workloads) {
            let known = tables.iter().position(|it| it.kind == workload.kind);
            let table = known.unwrap_or_else(|| {
                tables.push(KindTable::new(workload.kind.clone(), Vec::new()));
                tables.len() - 1
            });
            tables[table].objects.extend(object);
        }
        for table in &mut tables {
            // A stable sort is quick where most objects are in order, as pods are.
            let objects = &mut table.objects;
            objects.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        }
        tables.sort_by(|a, b| a.kind.cmp(&b.kind));
        tables
    }
}

impl Object {
    fn new(namespace: Option<&Arc<str>>, name: &Arc<str>, (labels, created): Facts) -> Self {
        Self {
            namespace: namespace.cloned(),
            name: Arc::clone(name),
            labels,
            created: created.unwrap_or(Timestamp::MIN),
            of_pods: true,
            ..Self::default()
        }
    }

    fn add(&mut self, row: RowId) {
        // A selector and a controller may name the same workload.
        if self.members.last() != Some(&row) {
            self.members.push(row);
        }
    }
}

fn facts_of(objects: &[ClusterObject], name: &str) -> Facts {
    let object = ClusterObject::find(objects, name);
    object.map_or_else(Facts::default, |it| (it.labels.clone(), it.created))
}
