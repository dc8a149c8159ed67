//! Decides the owner of a device: a row's claim against the cluster's objects.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::clusters::{Clusters, Proof};
use super::super::inventory::{ExporterPod, Inventory, InventoryOrigin, Pod};
use super::super::series::{Owner, Scheme};
use super::super::store::DeviceRow;
use super::super::targets::TargetId;
use super::Standing;
use super::evidence::{Address, Evidence, pods_by_target};
use super::exporters::Exporters;
use super::strangers::{Sited, Strangers};
use apimachinery::time::Timestamp;

/// The data that rows' claims are checked against.
pub(super) struct Claims<'a> {
    inventory: &'a Inventory,
    pub(super) exporters: Exporters<'a>,
    /// The number of pods that the bare labels of each target name.
    pods_on_target: HashMap<TargetId, usize>,
    clusters: Clusters<'a>,
    strangers: Strangers<'a>,
}

impl<'a> Claims<'a> {
    /// `sited` is in the order of the devices.
    pub(super) fn of(sited: &[Sited<'a>], inventory: &'a Inventory) -> Self {
        let rows = || sited.iter().map(|sited| sited.row);
        let bare = rows().filter(|row| row.scheme == Some(Scheme::Bare));
        let named = bare.filter_map(|row| Some((row, row.owner.as_ref()?)));
        let on_target =
            named.flat_map(|(row, owner)| row.targets.iter().map(move |id| (*id, owner)));
        let named = |sited: &Sited<'a>| {
            let cluster = sited.row.cluster.as_deref()?;
            Some((cluster, proof(sited, inventory)))
        };
        Self {
            inventory,
            exporters: Exporters::among(rows()),
            pods_on_target: pods_by_target(on_target),
            clusters: Clusters::among(sited.iter().filter_map(named)),
            strangers: Strangers::among(sited, inventory),
        }
    }

    /// The clusters that the rows name, if they are several.
    pub(super) fn several_clusters(&self) -> Vec<Arc<str>> {
        let several = self.clusters.are_several();
        let names = self.clusters.names().filter(|_| several);
        names.map(Into::into).collect()
    }

    /// The nodes of other clusters whose series name none.
    pub(super) fn foreign_nodes(&self) -> Vec<Arc<str>> {
        self.strangers.nodes()
    }

    /// Decides a row's claim to an owner.
    pub(super) fn standing(&self, sited: &Sited<'_>) -> (Standing, Option<&'a Pod>) {
        let row = sited.row;
        let foreign = |name: &Arc<str>| self.clusters.is_foreign(name);
        if row.cluster.as_ref().is_some_and(foreign) || self.strangers.include(sited) {
            return (Standing::Foreign, None);
        }
        let Some(owner) = &row.owner else {
            return (Standing::Unheld, None);
        };
        let bare = row.scheme == Some(Scheme::Bare);
        let looks_like_exporter =
            bare && (row.suspect || self.exporters.is_behind(row, &owner.pod));
        if self.inventory.authority == InventoryOrigin::Series {
            let standing = if looks_like_exporter {
                Standing::Unheld
            } else {
                Standing::Held
            };
            return (standing, None);
        }
        let inventory = self.inventory;
        let live = inventory.pod(&owner.namespace, &owner.pod);
        let Some(pod) = live.or_else(|| inventory.departed(&owner.namespace, &owner.pod)) else {
            let standing = if looks_like_exporter {
                Standing::Unheld
            } else {
                Standing::Gone
            };
            return (standing, None);
        };
        if bare
            && !self
                .evidence(row, owner, pod, looks_like_exporter)
                .is_holder()
        {
            return (Standing::Unheld, None);
        }
        let elsewhere = |pod: &Pod| {
            let both = pod.node.as_ref().zip(sited.node);
            both.is_some_and(|(node, named)| node != named)
        };
        if elsewhere(pod) {
            let before = predecessor(row, pod, sited.newest, inventory, elsewhere);
            // A wrong name of the node contradicts no proof, but an earlier pod there does.
            if !row.proven || before.1.is_some() {
                return before;
            }
        }
        if live.is_none() || !pod.is_live() {
            return (Standing::Gone, Some(pod));
        }
        (Standing::Held, Some(pod))
    }

    /// The time from which readings of a row count for no pod: its pod had ended, or
    /// would be known if it were live.
    pub(super) fn ended(&self, standing: Standing, pod: Option<&Pod>) -> Timestamp {
        let ended = match (standing, pod) {
            (Standing::Gone, Some(pod)) => pod.ended,
            (Standing::Gone, None) => self.inventory.listed,
            _ => None,
        };
        ended.unwrap_or(Timestamp::MAX)
    }

    /// Bare labels are also on idle devices, where they name the exporter.
    fn evidence(&self, row: &DeviceRow, owner: &Owner, pod: &Pod, is_exporter: bool) -> Evidence {
        let exporters = &self.inventory.exporters;
        let is_owner =
            |it: &ExporterPod| (&it.namespace, &it.name) == (&owner.namespace, &owner.pod);
        let instance = row.labels.get_ignore_case("instance").unwrap_or_default();
        let pods = row
            .targets
            .iter()
            .filter_map(|id| self.pods_on_target.get(id));
        Evidence {
            requests_gpu: pod.requests_gpu(),
            proven: row.proven,
            is_exporter: is_exporter || exporters.iter().any(is_owner),
            daemon: pod.daemon,
            address: Address::of(instance, owner, exporters),
            pods_on_target: pods.copied().max().unwrap_or_default(),
        }
    }
}

/// Whether a row is this cluster's: its pod is known, and on the node that the row names.
fn proof(sited: &Sited<'_>, inventory: &Inventory) -> Proof {
    let Some(owner) = &sited.row.owner else {
        return Proof::None;
    };
    let known = inventory
        .pod(&owner.namespace, &owner.pod)
        .or_else(|| inventory.departed(&owner.namespace, &owner.pod));
    let Some(pod) = known else {
        return Proof::Strange;
    };
    match (sited.node, &pod.node) {
        (Some(named), Some(node)) if named == node => Proof::Ours,
        (Some(_), Some(_)) => Proof::Strange,
        (None, _) | (_, None) => Proof::None,
    }
}

/// A row on another node than the pod of its name: an earlier pod's of that name, by the
/// departed pods or the times, otherwise a contradiction.
fn predecessor<'a>(
    row: &DeviceRow,
    pod: &Pod,
    newest: Timestamp,
    inventory: &'a Inventory,
    elsewhere: impl Fn(&Pod) -> bool,
) -> (Standing, Option<&'a Pod>) {
    let owner = row.owner.as_ref();
    let mut before = owner
        .into_iter()
        .flat_map(|owner| inventory.all_departed(&owner.namespace, &owner.pod));
    if let Some(before) = before.find(|pod| !elsewhere(pod)) {
        return (Standing::Gone, Some(before));
    }
    let earlier = pod.started.is_some_and(|started| newest < started);
    let standing = if earlier {
        Standing::Gone
    } else {
        Standing::Conflict
    };
    (standing, None)
}

/// The node of a device: the one that the series name if the cluster has it, otherwise
/// the pod's.
pub(super) fn node_of(
    sited: &Sited<'_>,
    pod: Option<&Pod>,
    inventory: &Inventory,
    exporters: &Exporters<'_>,
) -> Option<Arc<str>> {
    if inventory.authority == InventoryOrigin::Cluster {
        let node = sited.node.or_else(|| pod.and_then(|pod| pod.node.as_ref()));
        return node.cloned();
    }
    // Old exporters write their own pod's name as the host's.
    let is_exporter = |name: &&Arc<str>| exporters.is_behind(sited.row, name);
    let mut names = sited.row.nodes.iter().map(|node| &node.name);
    names.find(|name| !is_exporter(name)).cloned()
}
