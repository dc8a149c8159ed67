//! Looks up what rows name: pods and Nodes.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::grid::RowId;
use super::super::inventory::{Inventory, Pod};
use super::super::series::{Device, NodeName, Owner, Scheme};
use super::super::store::DeviceRow;
use super::super::targets::TargetId;
use super::super::threads;
use super::nodes::NodeNames;
use apimachinery::time::Timestamp;

/// Exporters' label for the index of a GPU on its node.
const INDEX: &str = "gpu";

/// A row with the results of lookups. Rows are far apart in memory, so the fields that are
/// read several times are copied here.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedRow<'a> {
    pub(super) id: RowId,
    pub(super) row: &'a Arc<DeviceRow>,
    pub(super) owner: Option<&'a Owner>,
    pub(super) targets: &'a [TargetId],
    pub(super) nodes: &'a [NodeName],
    /// The cluster that it names.
    pub(super) cluster: Option<&'a str>,
    /// Whether the labels of its pod are bare.
    pub(super) is_bare: bool,
    /// The exporter's pod, where the labels distinguish it from the owner.
    pub(super) exporter: Option<&'a str>,
    /// The index of its GPU on the node.
    pub(super) index: Option<&'a str>,
    /// The Node that its series name, if the cluster has it.
    pub(super) node: Option<&'a Arc<str>>,
    /// The number of the pod that it names.
    pub(super) number: Option<u32>,
    /// The pod that it names, if the cluster has it or had it.
    pub(super) pod: Option<&'a Pod>,
    /// Whether the cluster no longer has that pod.
    pub(super) departed: bool,
    /// The time of its newest sample.
    pub(super) newest: Timestamp,
}

/// Finds what rows name.
pub(super) struct Names<'a> {
    inventory: &'a Inventory,
    nodes: &'a NodeNames,
    /// The index of each pod of the inventory.
    pods: HashMap<(&'a str, &'a str), u32>,
}

impl<'a> Names<'a> {
    pub(super) fn of(inventory: &'a Inventory, nodes: &'a NodeNames) -> Self {
        let pods = inventory.pods.iter();
        let names = pods.map(|pod| (&*pod.namespace, &*pod.name));
        Self {
            inventory,
            nodes,
            pods: names.zip(0..).collect(),
        }
    }

    /// Looks up all rows. Also returns how many pods have a number: those of the
    /// inventory, and then others that rows name.
    pub(super) fn resolve(
        &self,
        rows: &[(RowId, &'a Arc<DeviceRow>)],
        newest: impl Fn(RowId) -> Timestamp + Sync,
    ) -> (Vec<ResolvedRow<'a>>, usize) {
        let pods = self.inventory.pods.len();
        let mut resolved = threads::map_rows(rows, |(id, row)| self.look_up(*id, row, newest(*id)));
        let mut others: HashMap<(&str, &str), u32> = HashMap::new();
        for row in resolved.iter_mut().filter(|row| row.number.is_none()) {
            row.number = row.owner.map(|owner| {
                let next = u32::try_from(pods + others.len()).unwrap_or(u32::MAX);
                let other = others.entry((&owner.namespace, &owner.pod));
                *other.or_insert(next)
            });
        }
        (resolved, pods + others.len())
    }

    fn look_up(&self, id: RowId, row: &'a Arc<DeviceRow>, newest: Timestamp) -> ResolvedRow<'a> {
        let (owner, label_facts) = (row.owner.as_ref(), &row.label_facts);
        let number = owner.and_then(|it| self.pods.get(&(&*it.namespace, &*it.pod)).copied());
        let listed = number.and_then(|number| self.inventory.pods.get(number as usize));
        let departed =
            || owner.and_then(|it| self.inventory.departed(&it.namespace, &it.pod).first());
        let index = label_facts.labels.get_ignore_case(INDEX);
        ResolvedRow {
            id,
            row,
            owner,
            targets: &row.targets,
            nodes: &label_facts.nodes,
            cluster: label_facts.cluster.as_deref(),
            exporter: match label_facts.scheme {
                Some(Scheme::Exported) => label_facts.labels.get_ignore_case("pod"),
                _ => None,
            },
            is_bare: label_facts.scheme == Some(Scheme::Bare),
            index: index.filter(|index| !index.is_empty()),
            node: self.nodes.named(&label_facts.nodes),
            number,
            pod: listed.or_else(departed),
            departed: listed.is_none(),
            newest,
        }
    }
}

/// A row with the first 16 bytes of its device's UUID as a number. Most devices differ in
/// them, so that a comparison mostly does not read the UUIDs.
pub(super) type Sorted<'s, 'a> = (u128, &'s ResolvedRow<'a>);

/// Rows in the order of their devices.
pub(super) fn in_order<'s, 'a>(rows: &'s [ResolvedRow<'a>]) -> Vec<Sorted<'s, 'a>> {
    let rows = rows.iter();
    let mut sorted: Vec<_> = rows.map(|it| (beginning(&it.row.device), it)).collect();
    sorted.sort_unstable_by(|(a, one), (b, other)| {
        let full = |row: &'a DeviceRow| (&row.device, &row.owner);
        a.cmp(b).then_with(|| full(one.row).cmp(&full(other.row)))
    });
    sorted
}

fn beginning(device: &Device) -> u128 {
    let mut bytes = [0; 16];
    for (byte, of_name) in bytes.iter_mut().zip(device.uuid.bytes()) {
        *byte = of_name;
    }
    u128::from_be_bytes(bytes)
}
