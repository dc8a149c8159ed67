//! Decides the owner of a device: checks a row's claim against the cluster's objects.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::super::clusters::{Clusters, Proof};
use super::super::dcgm::schemes::host;

use super::super::inventory::{ExporterPod, Inventory, InventoryOrigin, Pod};
use super::super::policy::MigWeight;
use super::super::series::Owner;
use super::super::store::DeviceRow;
use super::super::targets::TargetId;
use super::exporters::Exporters;
use super::foreign::ForeignExporters;
use super::resolved::{ResolvedRow, Sorted};
use super::{Attribution, RowFacts};
use apimachinery::time::Timestamp;

/// The data that rows' claims are checked against.
pub(super) struct Claims<'a> {
    inventory: &'a Inventory,
    pub(super) exporters: Exporters<'a>,
    /// The number of pods that the bare labels of each target name.
    pods_on_target: HashMap<TargetId, usize>,
    clusters: Clusters<'a>,
    foreign_exporters: ForeignExporters<'a>,
}

impl<'a> Claims<'a> {
    /// `sorted` are the same rows in the order of their devices.
    pub(super) fn of(
        resolved: &[ResolvedRow<'a>],
        sorted: &[Sorted<'_, 'a>],
        inventory: &'a Inventory,
    ) -> Self {
        let bare = || resolved.iter().filter(|row| row.is_bare);
        let mut on_target: HashMap<TargetId, BTreeSet<_>> = HashMap::new();
        for (row, owner) in bare().filter_map(|row| Some((row, row.owner?))) {
            for target in row.targets {
                let pods = on_target.entry(*target).or_default();
                pods.insert((&owner.namespace, &owner.pod));
            }
        }
        let counts = on_target.iter().map(|(id, pods)| (*id, pods.len()));
        let pods_on_target = counts.collect();
        let named = |resolved: &ResolvedRow<'a>| Some((resolved.cluster?, proof(resolved)));
        Self {
            inventory,
            exporters: Exporters::among(resolved),
            pods_on_target,
            clusters: Clusters::among(resolved.iter().filter_map(named)),
            foreign_exporters: ForeignExporters::among(sorted, inventory),
        }
    }

    /// The clusters that the rows name, if they are several.
    pub(super) fn several_clusters(&self) -> Vec<Arc<str>> {
        let several = self.clusters.are_several();
        let names = self.clusters.names().filter(|_| several);
        names.map(Into::into).collect()
    }

    /// The nodes of other clusters whose series name no cluster.
    pub(super) fn foreign_nodes(&self) -> Vec<Arc<str>> {
        self.foreign_exporters.nodes()
    }

    /// The facts of a row by its claim, and the pod that it counts for. `is_followed`:
    /// whether the next device is on the same board.
    pub(super) fn facts(
        &self,
        resolved: &ResolvedRow<'a>,
        (device, is_followed): (u32, bool),
        mig_weight: MigWeight,
    ) -> (RowFacts, Option<&'a Pod>) {
        let (id, row) = (resolved.id, resolved.row);
        let (attribution, pod) = self.attribution(resolved);
        let listed = resolved.pod.filter(|_| !resolved.departed);
        let known = resolved.node.or_else(|| listed?.node.as_ref());
        let best = || resolved.nodes.first().map(|named| &named.name);
        let facts = RowFacts {
            id,
            row: Arc::clone(row),
            node: known.or_else(best).cloned(),
            device,
            attribution,
            is_mig: row.device.is_mig(),
            has_instances: is_followed && !row.device.is_mig(),
            shares_slot: false,
            started: pod.and_then(|pod| pod.started).unwrap_or(Timestamp::MIN),
            ended: self.ended(attribution, pod),
            running_since: pod.and_then(|pod| pod.running_since),
            weight: match mig_weight {
                MigWeight::Equal => 1.0,
                MigWeight::Slices => f64::from(row.device.slices()),
            },
        };
        (facts, pod)
    }

    /// Decides a row's claim to an owner.
    fn attribution(&self, resolved: &ResolvedRow<'a>) -> (Attribution, Option<&'a Pod>) {
        let row = resolved.row;
        let foreign = |name| self.clusters.is_foreign(name);
        if resolved.cluster.is_some_and(foreign) || self.foreign_exporters.include(resolved) {
            return (Attribution::Foreign, None);
        }
        let Some(owner) = resolved.owner else {
            return (Attribution::Unheld, None);
        };
        let bare = resolved.is_bare;
        let looks_like_exporter =
            bare && (row.label_facts.suspect || self.exporters.is_behind(row, &owner.pod));
        let inventory = self.inventory;
        let Some(pod) = resolved.pod else {
            let attribution = match inventory.authority {
                _ if looks_like_exporter => Attribution::Unheld,
                InventoryOrigin::Series => Attribution::Held,
                InventoryOrigin::Cluster => Attribution::Gone,
            };
            return (attribution, None);
        };
        if bare && !self.is_holder(row, owner, pod, looks_like_exporter) {
            return (Attribution::Unheld, None);
        }
        let elsewhere = |pod: &Pod| {
            let both = pod.node.as_ref().zip(resolved.node);
            both.is_some_and(|(node, named)| node != named)
        };
        if elsewhere(pod) {
            let before = predecessor(row, pod, resolved.newest, inventory, elsewhere);
            // A wrong node name does not refute a proof, but an earlier pod on that node does.
            if !row.label_facts.proven || before.1.is_some() {
                return before;
            }
        }
        if resolved.departed || !pod.is_live() {
            return (Attribution::Gone, Some(pod));
        }
        (Attribution::Held, Some(pod))
    }

    /// The time from which readings of a row count for no pod: its pod had ended, or the
    /// inventory would list it if it were live.
    fn ended(&self, attribution: Attribution, pod: Option<&Pod>) -> Timestamp {
        let ended = match (attribution, pod) {
            (Attribution::Gone, Some(pod)) => pod.ended,
            (Attribution::Gone, None) => self.inventory.listed,
            _ => None,
        };
        ended.unwrap_or(Timestamp::MAX)
    }

    /// Whether the pod that a bare label names holds the GPU. With `honor_labels: true` the
    /// label holds the exporter's own pod where a GPU is not allocated; without the
    /// exporter's Kubernetes mapping it does so everywhere. If bare labels of a target name
    /// several pods, at most one of these is the exporter, except pods of a DaemonSet, which
    /// replace each other.
    fn is_holder(&self, row: &DeviceRow, owner: &Owner, pod: &Pod, is_exporter: bool) -> bool {
        if pod.requests_gpu() || row.label_facts.proven {
            return true;
        }
        let exporters = &self.inventory.exporters;
        let is_owner =
            |it: &ExporterPod| (&it.namespace, &it.name) == (&owner.namespace, &owner.pod);
        if is_exporter || exporters.iter().any(is_owner) {
            return false;
        }
        let instance = row.label_facts.labels.get_ignore_case("instance");
        let address = host(instance.unwrap_or_default());
        let is_behind = |it: &ExporterPod| it.address.as_deref() == Some(address);
        let mut targets = row.targets.iter();
        let are_several = |id: &TargetId| self.pods_on_target.get(id) > Some(&1);
        exporters.iter().any(is_behind) || (targets.any(are_several) && !pod.daemon)
    }
}

/// Whether a row is of this cluster: its pod is known, and on the node that the row names.
fn proof(resolved: &ResolvedRow<'_>) -> Proof {
    if resolved.owner.is_none() {
        return Proof::None;
    }
    let Some(pod) = resolved.pod else {
        return Proof::Foreign;
    };
    match (resolved.node, &pod.node) {
        (Some(named), Some(node)) if named == node => Proof::Local,
        (Some(_), Some(_)) => Proof::Foreign,
        (None, _) | (_, None) => Proof::None,
    }
}

/// The attribution of a row on another node than its pod: the row belongs to an earlier pod
/// of the same name, by the departed pods or by the times, or else is a conflict.
fn predecessor<'a>(
    row: &DeviceRow,
    pod: &Pod,
    newest: Timestamp,
    inventory: &'a Inventory,
    elsewhere: impl Fn(&Pod) -> bool,
) -> (Attribution, Option<&'a Pod>) {
    let owner = row.owner.as_ref();
    let mut before = owner
        .into_iter()
        .flat_map(|owner| inventory.departed(&owner.namespace, &owner.pod));
    if let Some(before) = before.find(|pod| !elsewhere(pod)) {
        return (Attribution::Gone, Some(before));
    }
    let earlier = pod.started.is_some_and(|started| newest < started);
    let attribution = if earlier {
        Attribution::Gone
    } else {
        Attribution::Conflict
    };
    (attribution, None)
}

/// The node of a device: the one that the series name if the cluster has it, otherwise
/// the pod's. Without a cluster, the best name in the series: old exporters write their
/// own pod's name as the host's.
pub(super) fn node_of<'a>(
    resolved: &ResolvedRow<'a>,
    pod: Option<&'a Pod>,
    authority: InventoryOrigin,
    exporters: &Exporters<'_>,
) -> Option<&'a Arc<str>> {
    let known = resolved.node.or_else(|| pod?.node.as_ref());
    let is_exporter = |name: &&Arc<str>| exporters.is_behind(resolved.row, name);
    let mut names = resolved.nodes.iter().map(|named| &named.name);
    match authority {
        InventoryOrigin::Cluster => known,
        InventoryOrigin::Series => known.or_else(|| names.find(|name| !is_exporter(name))),
    }
}
