//! Exporters of another cluster whose series name no cluster.
//!
//! Similar clusters have the same names of namespaces and pods, so that in a store with
//! two clusters, two devices name a pod that holds one. The node distinguishes them:
//! docs/attribution.md, "Clusters".

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::super::inventory::{Inventory, InventoryOrigin, Pod};
use super::super::series::Owner;
use super::super::targets::TargetId;
use super::nodes::is_shared;
use super::resolved::{ResolvedRow, Sorted};

impl<'a> ResolvedRow<'a> {
    fn job(&self) -> &'a str {
        self.row
            .label_facts
            .labels
            .get_ignore_case("job")
            .unwrap_or_default()
    }

    /// The name in its best node label.
    fn label(&self) -> Option<&'a str> {
        self.nodes.first().map(|named| &*named.name)
    }
}

/// The pods that devices on the cluster's Nodes name.
#[derive(Debug, Default)]
struct Reported<'a> {
    nodes: HashSet<&'a str>,
    jobs: HashSet<&'a str>,
    /// How many devices of each Node name each pod.
    devices: HashMap<(&'a str, (&'a str, &'a str)), u32>,
    /// Nodes with a device that several live pods hold.
    shared: HashSet<&'a str>,
}

/// Exporters of other clusters: the target and the node that its series name.
#[derive(Debug, Default)]
pub(super) struct ForeignExporters<'a> {
    exporters: HashSet<(TargetId, &'a str)>,
}

impl<'a> ForeignExporters<'a> {
    /// Finds the foreign exporters among rows in the order of their devices.
    pub(super) fn among(rows: &[Sorted<'_, 'a>], inventory: &'a Inventory) -> Self {
        let mut foreign_exporters = Self::default();
        let are_known = rows.iter().all(|(_, row)| row.node.is_some());
        let is_cluster = inventory.authority == InventoryOrigin::Cluster;
        if are_known || !is_cluster || inventory.nodes.is_empty() {
            return foreign_exporters;
        }
        let rows: Vec<ResolvedRow<'a>> = rows.iter().map(|(_, row)| **row).collect();
        let devices = || rows.chunk_by(|a, b| a.row.device == b.row.device);
        // A device that has ever named a Node of the cluster belongs to the cluster: its
        // label was renamed.
        let is_unknown = |rows: &&[ResolvedRow<'_>]| rows.iter().all(|row| row.node.is_none());
        let mut unknown = devices().filter(is_unknown).flatten().peekable();
        if unknown.peek().is_none() {
            return foreign_exporters;
        }
        let reported = Reported::by(devices(), inventory);
        for row in unknown {
            if reported.contradicts(row, inventory)
                && let Some(label) = row.label()
            {
                let exporters = row.targets.iter().map(|target| (*target, label));
                foreign_exporters.exporters.extend(exporters);
            }
        }
        foreign_exporters
    }

    /// Whether a row belongs to another cluster.
    pub(super) fn include(&self, row: &ResolvedRow<'_>) -> bool {
        if self.exporters.is_empty() || row.node.is_some() {
            return false;
        }
        let mut targets = row.targets.iter();
        row.label()
            .is_some_and(|label| targets.any(|id| self.exporters.contains(&(*id, label))))
    }

    /// The nodes of other clusters, as their series name them.
    pub(super) fn nodes(&self) -> Vec<Arc<str>> {
        let names: BTreeSet<&str> = self.exporters.iter().map(|(_, node)| *node).collect();
        names.into_iter().map(Into::into).collect()
    }
}

impl<'a> Reported<'a> {
    fn by<'r>(
        devices: impl Iterator<Item = &'r [ResolvedRow<'a>]>,
        inventory: &'a Inventory,
    ) -> Self
    where
        'a: 'r,
    {
        let shared = inventory.nodes.iter();
        let shared = shared.filter(|node| is_shared(&node.labels));
        let mut reported = Self {
            shared: shared.map(|node| &*node.name).collect(),
            ..Self::default()
        };
        for rows in devices {
            let newest = rows.iter().max_by_key(|row| row.newest);
            // Only the newest row counts, because a device's label may have been renamed.
            let Some((newest, node)) = newest.and_then(|newest| Some((newest, newest.node?)))
            else {
                continue;
            };
            reported.nodes.insert(node);
            reported.jobs.insert(newest.job());
            reported.hold(rows, node, inventory);
        }
        reported
    }

    /// Records the pods that a device on a Node names.
    fn hold(&mut self, rows: &[ResolvedRow<'a>], node: &'a str, inventory: &Inventory) {
        let owners = rows.iter().filter_map(|row| row.owner);
        let mut pods: Vec<(&str, &str)> = owners
            .map(|owner| (&*owner.namespace, &*owner.pod))
            .collect();
        pods.sort_unstable();
        pods.dedup();
        for pod in &pods {
            *self.devices.entry((node, *pod)).or_default() += 1;
        }
        let lives = |(namespace, name): &&(&str, &str)| {
            let pod = inventory.pod(namespace, name);
            pod.is_some_and(Pod::is_live)
        };
        if pods.len() > 1 && pods.iter().filter(lives).count() > 1 {
            self.shared.insert(node);
        }
    }

    /// Whether a row that names no Node of the cluster cannot belong to the cluster.
    fn contradicts(&self, row: &ResolvedRow<'_>, inventory: &Inventory) -> bool {
        let Some(owner) = row.owner else {
            return false;
        };
        let Some((pod, node)) = row.pod.and_then(|pod| Some((pod, pod.node.as_deref()?))) else {
            return false;
        };
        // A pod of that name may have run on a Node that is gone.
        let is_earlier = pod.started.is_some_and(|started| row.newest < started);
        if is_earlier || has_run_there(row, owner, inventory) {
            return false;
        }
        let elsewhere = self.jobs.contains(row.job()) && self.nodes.contains(node);
        elsewhere || self.is_too_many(owner, pod, node)
    }

    /// Whether all devices that a pod requests are on its Node: a request is a number of
    /// devices unless other pods share them.
    fn is_too_many(&self, owner: &Owner, pod: &Pod, node: &str) -> bool {
        let key = (node, (&*owner.namespace, &*owner.pod));
        let devices = self.devices.get(&key);
        let is_exact = pod.gpus > 0 && !pod.uncounted && !self.shared.contains(node);
        is_exact && devices.is_some_and(|devices| *devices >= pod.gpus)
    }
}

/// Whether a pod of that name ran, or runs, on the node that a row names.
fn has_run_there(row: &ResolvedRow<'_>, owner: &Owner, inventory: &Inventory) -> bool {
    let (namespace, name) = (&owner.namespace, &owner.pod);
    let live = inventory.pod(namespace, name).into_iter();
    let mut pods = live.chain(inventory.departed(namespace, name));
    pods.any(|pod| {
        let mut names = row.nodes.iter().map(|named| &named.name);
        names.any(|name| pod.node.as_ref() == Some(name))
    })
}
