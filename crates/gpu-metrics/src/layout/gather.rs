//! Collects the objects and their rows.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::grid::RowId;
use super::super::inventory::InventoryOrigin;
use super::super::inventory::{ClusterObject, Inventory, ObjectKind, Pod};
use super::super::series::Owner;
use super::claim::node_of;
use super::exporters::Exporters;
use super::names::Workloads;
use super::strangers::Sited;
use super::{KindTable, Object, RowFacts, Standing};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

type ObjectKey<'a> = (Option<&'a Arc<str>>, &'a Arc<str>);

/// The objects of one kind.
type Gathered<'a> = HashMap<ObjectKey<'a>, Object>;

/// Labels and creation of an object.
type Facts = (Labels, Option<Timestamp>);

/// Indices of the core kinds in `Building`.
const PODS: usize = 0;
const NAMESPACES: usize = 1;
const NODES: usize = 2;

/// Objects under construction, by kind.
pub(super) struct Building<'a> {
    inventory: &'a Inventory,
    kinds: Vec<(ObjectKind, Gathered<'a>)>,
    /// The kind of each workload of the inventory.
    kind_of_workload: Vec<usize>,
    /// Finds workloads of pods that the server has not seen.
    by_name: Workloads<'a>,
}

impl<'a> Building<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Self {
        // The core kinds always exist, with or without objects.
        let core = [
            ObjectKind::pod(),
            ObjectKind::namespace(),
            ObjectKind::node(),
        ];
        let mut kinds: Vec<_> = core
            .into_iter()
            .map(|kind| (kind, HashMap::new()))
            .collect();
        let mut kind_of_workload = Vec::with_capacity(inventory.workloads.len());
        for workload in &inventory.workloads {
            let known = kinds.iter().position(|(kind, _)| *kind == workload.kind);
            kind_of_workload.push(known.unwrap_or_else(|| {
                kinds.push((workload.kind.clone(), HashMap::new()));
                kinds.len() - 1
            }));
        }
        Self {
            inventory,
            kinds,
            kind_of_workload,
            by_name: Workloads::of(inventory),
        }
    }

    fn add(&mut self, kind: usize, key: ObjectKey<'a>, facts: impl FnOnce() -> Facts, row: RowId) {
        let objects = self.kinds[kind].1.entry(key);
        let object = objects.or_insert_with_key(|(namespace, name)| {
            let (labels, created) = facts();
            Object {
                namespace: namespace.cloned(),
                name: Arc::clone(name),
                labels,
                members: Vec::new(),
                created: created.unwrap_or(Timestamp::MIN),
                of_pods: kind != NODES,
                unseen: Vec::new(),
            }
        });
        // A selector and a controller may name the same workload.
        if object.members.last() != Some(&row) {
            object.members.push(row);
        }
    }

    pub(super) fn place(
        &mut self,
        sited: &Sited<'a>,
        facts: &RowFacts,
        pod: Option<&'a Pod>,
        exporters: &Exporters<'_>,
    ) {
        let (id, inventory) = (sited.id, self.inventory);
        if !matches!(facts.standing, Standing::Conflict | Standing::Foreign)
            && let Some(node) = node_of(sited, pod, inventory, exporters)
        {
            let of_node = || facts_of(&inventory.nodes, node);
            self.add(NODES, (None, node), of_node, id);
        }
        let (Standing::Held | Standing::Gone, Some(owner)) = (facts.standing, &sited.row.owner)
        else {
            return;
        };
        let namespace = &owner.namespace;
        if facts.standing == Standing::Held {
            let of_pod = || (pod.map(|pod| pod.labels.clone()).unwrap_or_default(), None);
            self.add(PODS, (Some(namespace), &owner.pod), of_pod, id);
        }
        if inventory.authority == InventoryOrigin::Series || known(&inventory.namespaces, namespace)
        {
            let of_namespace = || facts_of(&inventory.namespaces, namespace);
            self.add(NAMESPACES, (None, namespace), of_namespace, id);
        }
        self.place_workloads(id, owner, pod);
    }

    /// Adds a row to the workloads of its pod: its controllers, or otherwise those that
    /// the pod's name indicates.
    fn place_workloads(&mut self, id: RowId, owner: &Owner, pod: Option<&'a Pod>) {
        let by_name = match pod {
            Some(_) => Vec::new(),
            None => self.by_name.of_pod(&owner.namespace, &owner.pod),
        };
        for index in pod.map_or(by_name.as_slice(), |pod| &pod.owners) {
            let index = *index as usize;
            let workload = self
                .inventory
                .workloads
                .get(index)
                .zip(self.kind_of_workload.get(index).copied());
            if let Some((workload, kind)) = workload {
                let key = (Some(&workload.namespace), &workload.name);
                let of_workload = || (workload.labels.clone(), workload.created);
                self.add(kind, key, of_workload, id);
            }
        }
    }

    pub(super) fn finish(self) -> Vec<KindTable> {
        let table = |(kind, objects): (ObjectKind, Gathered<'_>)| {
            let mut objects: Vec<Object> = objects.into_values().collect();
            objects.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
            KindTable { kind, objects }
        };
        let mut tables: Vec<KindTable> = self.kinds.into_iter().map(table).collect();
        tables.sort_by(|a, b| a.kind.cmp(&b.kind));
        tables
    }
}

/// The index of a cluster-scoped object in a list sorted by name.
fn place_of(objects: &[ClusterObject], name: &str) -> Option<usize> {
    objects
        .binary_search_by(|object| object.name.as_ref().cmp(name))
        .ok()
}

fn known(objects: &[ClusterObject], name: &str) -> bool {
    place_of(objects, name).is_some()
}

fn facts_of(objects: &[ClusterObject], name: &str) -> Facts {
    place_of(objects, name).map_or_else(Facts::default, |index| {
        (objects[index].labels.clone(), objects[index].created)
    })
}
