//! Objects under construction.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::grid::RowId;
use super::super::inventory::{ClusterObject, Inventory, ObjectKind, Pod};
use super::super::labels::Labels;
use super::super::series::Owner;
use super::claim::node_of;
use super::exporters::Exporters;
use super::{KindTable, Object, RowFacts, Standing};

type ObjectKey = (Option<Arc<str>>, Arc<str>);

/// Labels and rows of the objects of one kind.
type Gathered = HashMap<ObjectKey, (Labels, Vec<RowId>)>;

/// Places of the core kinds among those under construction.
const PODS: usize = 0;
const NAMESPACES: usize = 1;
const NODES: usize = 2;

/// Objects under construction, by kind.
pub(super) struct Building<'a> {
    inventory: &'a Inventory,
    kinds: Vec<(ObjectKind, Gathered)>,
    /// The kind of each workload of the inventory.
    kind_of_workload: Vec<usize>,
}

impl<'a> Building<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Self {
        // The core kinds are always there, with or without objects.
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
        }
    }

    fn add(&mut self, kind: usize, key: ObjectKey, labels: impl FnOnce() -> Labels, row: RowId) {
        let (_, members) = self.kinds[kind]
            .1
            .entry(key)
            .or_insert_with(|| (labels(), Vec::new()));
        // A selector and a controller may name the same workload.
        if members.last() != Some(&row) {
            members.push(row);
        }
    }

    pub(super) fn place(
        &mut self,
        id: RowId,
        facts: &RowFacts,
        pod: Option<&Pod>,
        exporters: &Exporters<'_>,
    ) {
        let inventory = self.inventory;
        if matches!(facts.standing, Standing::Held | Standing::Nobody)
            && let Some(node) = node_of(&facts.row, pod, inventory, exporters)
        {
            let name = Arc::clone(&node);
            self.add(
                NODES,
                (None, node),
                || labels_of(&inventory.nodes, &name),
                id,
            );
        }
        let (Standing::Held, Some(owner)) = (facts.standing, &facts.row.owner) else {
            return;
        };
        let Owner {
            namespace,
            pod: name,
            ..
        } = owner;
        let pod_labels = || pod.map(|pod| pod.labels.clone()).unwrap_or_default();
        self.add(
            PODS,
            (Some(Arc::clone(namespace)), Arc::clone(name)),
            pod_labels,
            id,
        );
        let labels = || labels_of(&inventory.namespaces, namespace);
        self.add(NAMESPACES, (None, Arc::clone(namespace)), labels, id);
        for index in pod.map_or(&[][..], |pod| &pod.owners) {
            let index = *index as usize;
            let workload = inventory
                .workloads
                .get(index)
                .zip(self.kind_of_workload.get(index).copied());
            if let Some((workload, kind)) = workload {
                let key = (
                    Some(Arc::clone(&workload.namespace)),
                    Arc::clone(&workload.name),
                );
                self.add(kind, key, || workload.labels.clone(), id);
            }
        }
    }

    pub(super) fn finish(self) -> Vec<KindTable> {
        let table = |(kind, objects): (ObjectKind, Gathered)| {
            let object = |((namespace, name), (labels, members))| Object {
                namespace,
                name,
                labels,
                members,
            };
            let mut objects: Vec<Object> = objects.into_iter().map(object).collect();
            objects.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
            KindTable { kind, objects }
        };
        let mut tables: Vec<KindTable> = self.kinds.into_iter().map(table).collect();
        tables.sort_by(|a, b| a.kind.cmp(&b.kind));
        tables
    }
}

/// The labels of a cluster-scoped object, out of a list sorted by name.
fn labels_of(objects: &[ClusterObject], name: &str) -> Labels {
    let found = objects.binary_search_by(|object| object.name.as_ref().cmp(name));
    found.map_or_else(|_| Labels::default(), |index| objects[index].labels.clone())
}
