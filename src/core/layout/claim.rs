//! Whose device it is: a row's claim against what the cluster says.

use std::sync::Arc;

use super::super::inventory::{Authority, Inventory, Pod};
use super::super::series::Scheme;
use super::super::store::Row;
use super::Standing;
use super::exporters::Exporters;

/// Judges a row's claim to an owner (`dcgm.md` §2.6).
pub(super) fn standing<'a>(
    row: &Row,
    inventory: &'a Inventory,
    exporters: &Exporters<'_>,
) -> (Standing, Option<&'a Pod>) {
    let Some(owner) = &row.owner else {
        return (Standing::Nobody, None);
    };
    let bare = row.scheme == Some(Scheme::Bare);
    let looks_like_exporter = bare && (row.suspect || exporters.is_behind(row, &owner.pod));
    if inventory.authority == Authority::Series {
        let standing = if looks_like_exporter {
            Standing::Nobody
        } else {
            Standing::Held
        };
        return (standing, None);
    }
    let Some(pod) = inventory.pod(&owner.namespace, &owner.pod) else {
        let standing = if looks_like_exporter {
            Standing::Nobody
        } else {
            Standing::Gone
        };
        return (standing, None);
    };
    // Bare labels stand on idle devices too, and then they are the exporter's:
    // only a pod that asked for GPUs (or a series that proves it) holds one.
    if bare && !pod.requests_gpu() && !row.proven {
        return (Standing::Nobody, None);
    }
    if !pod.is_live() {
        return (Standing::Gone, None);
    }
    let elsewhere = pod
        .node
        .as_ref()
        .is_some_and(|node| known_node(row, inventory).is_some_and(|named| named != node));
    if elsewhere && !row.proven {
        return (Standing::Conflict, None);
    }
    (Standing::Held, Some(pod))
}

/// The first candidate that is the name of a node.
fn known_node<'a>(row: &'a Row, inventory: &Inventory) -> Option<&'a Arc<str>> {
    let mut names = row.nodes.iter().map(|node| &node.name);
    names.find(|name| {
        inventory
            .nodes
            .binary_search_by(|node| node.name.as_ref().cmp(name.as_ref()))
            .is_ok()
    })
}

/// The node a device sits on: what the series say where the cluster confirms
/// it, else where the pod runs.
pub(super) fn node_of(
    row: &Row,
    pod: Option<&Pod>,
    inventory: &Inventory,
    exporters: &Exporters<'_>,
) -> Option<Arc<str>> {
    if inventory.authority == Authority::Cluster {
        let node = known_node(row, inventory).or_else(|| pod.and_then(|pod| pod.node.as_ref()));
        return node.cloned();
    }
    // Old exporters print their own pod's name as the host's.
    let is_exporter = |name: &&Arc<str>| exporters.is_behind(row, name);
    let mut names = row.nodes.iter().map(|node| &node.name);
    names.find(|name| !is_exporter(name)).cloned()
}
