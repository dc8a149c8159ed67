//! Decides the owner of a device: a row's claim against the cluster's objects.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::super::clusters::{Clusters, Proof};
use super::super::inventory::{ExporterPod, Inventory, InventoryOrigin, Pod};
use super::super::series::{Owner, Scheme};
use super::super::store::DeviceRow;
use super::super::targets::TargetId;
use super::Standing;
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
        let bare = rows().filter(|row| row.told.scheme == Some(Scheme::Bare));
        let named = bare.filter_map(|row| Some((row, row.owner.as_ref()?)));
        let mut on_target: HashMap<TargetId, BTreeSet<_>> = HashMap::new();
        for (row, owner) in named {
            for target in &row.targets {
                let pods = on_target.entry(*target).or_default();
                pods.insert((&owner.namespace, &owner.pod));
            }
        }
        let counts = on_target.iter().map(|(id, pods)| (*id, pods.len()));
        let pods_on_target = counts.collect();
        let named = |sited: &Sited<'a>| {
            let cluster = sited.row.told.cluster.as_deref()?;
            Some((cluster, proof(sited)))
        };
        Self {
            inventory,
            exporters: Exporters::among(rows()),
            pods_on_target,
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
    pub(super) fn standing(&self, sited: &Sited<'a>) -> (Standing, Option<&'a Pod>) {
        let row = sited.row;
        let foreign = |name: &Arc<str>| self.clusters.is_foreign(name);
        if row.told.cluster.as_ref().is_some_and(foreign) || self.strangers.include(sited) {
            return (Standing::Foreign, None);
        }
        let Some(owner) = &row.owner else {
            return (Standing::Unheld, None);
        };
        let bare = row.told.scheme == Some(Scheme::Bare);
        let looks_like_exporter =
            bare && (row.told.suspect || self.exporters.is_behind(row, &owner.pod));
        let inventory = self.inventory;
        let Some(pod) = sited.pod else {
            let standing = match inventory.authority {
                _ if looks_like_exporter => Standing::Unheld,
                InventoryOrigin::Series => Standing::Held,
                InventoryOrigin::Cluster => Standing::Gone,
            };
            return (standing, None);
        };
        if bare && !self.is_holder(row, owner, pod, looks_like_exporter) {
            return (Standing::Unheld, None);
        }
        let elsewhere = |pod: &Pod| {
            let both = pod.node.as_ref().zip(sited.node);
            both.is_some_and(|(node, named)| node != named)
        };
        if elsewhere(pod) {
            let before = predecessor(row, pod, sited.newest, inventory, elsewhere);
            // A wrong name of the node contradicts no proof, but an earlier pod there does.
            if !row.told.proven || before.1.is_some() {
                return before;
            }
        }
        if sited.departed || !pod.is_live() {
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

    /// Whether the pod that a bare label names holds the GPU. With `honor_labels: true` the
    /// label holds the exporter's own pod where a GPU is not allocated; without the
    /// exporter's Kubernetes mapping it does so everywhere. At most one of several pods on
    /// a target can be the target itself, except a DaemonSet's pods, which may be it one
    /// after another.
    fn is_holder(&self, row: &DeviceRow, owner: &Owner, pod: &Pod, is_exporter: bool) -> bool {
        if pod.requests_gpu() || row.told.proven {
            return true;
        }
        let exporters = &self.inventory.exporters;
        let is_owner =
            |it: &ExporterPod| (&it.namespace, &it.name) == (&owner.namespace, &owner.pod);
        if is_exporter || exporters.iter().any(is_owner) {
            return false;
        }
        let instance = row.told.labels.get_ignore_case("instance");
        let address = host(instance.unwrap_or_default());
        let is_behind = |it: &ExporterPod| it.address.as_deref() == Some(address);
        let mut targets = row.targets.iter();
        let are_several = |id: &TargetId| self.pods_on_target.get(id) > Some(&1);
        exporters.iter().any(is_behind) || (targets.any(are_several) && !pod.daemon)
    }
}

/// The host of an `instance`, without the brackets of an IPv6 address.
fn host(instance: &str) -> &str {
    let host = instance.rsplit_once(':').map_or(instance, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Whether a row is this cluster's: its pod is known, and on the node that the row names.
fn proof(sited: &Sited<'_>) -> Proof {
    if sited.row.owner.is_none() {
        return Proof::None;
    }
    let Some(pod) = sited.pod else {
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
pub(super) fn node_of<'a>(
    sited: &Sited<'a>,
    pod: Option<&'a Pod>,
    inventory: &Inventory,
    exporters: &Exporters<'_>,
) -> Option<&'a Arc<str>> {
    if inventory.authority == InventoryOrigin::Cluster {
        return sited.node.or_else(|| pod.and_then(|pod| pod.node.as_ref()));
    }
    // Old exporters write their own pod's name as the host's.
    let is_exporter = |name: &&Arc<str>| exporters.is_behind(sited.row, name);
    let mut names = sited.row.told.nodes.iter().map(|node| &node.name);
    names.find(|name| !is_exporter(name))
}
