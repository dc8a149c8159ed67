//! Finds the pods that series name as the holders of devices: claims.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::time::Timestamp;

use super::nodes::is_shared;
use super::workloads::Workloads;
use super::{ClaimId, Layout, Named, PodId};
use crate::grid::RowId;
use crate::inventory::{Inventory, InventoryOrigin, Pod};
use crate::line::Line;

/// A pod that the series of a device name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub device: u32,
    pub pod: PodId,
    /// Whether the series name the pod's own Node.
    pub on_node: bool,
    /// The lines of the device that name the pod.
    pub lines: Vec<RowId>,
}

/// A pod that requests GPUs, or that series name.
#[derive(Clone, Debug)]
pub struct Holder {
    /// As the cluster has it. If the cluster does not have it, only its names and workloads
    /// are known.
    pub pod: Pod,
    /// Whether it lives and is not ending.
    pub is_live: bool,
    /// How many GPUs it requests for itself; `None`: unknown, or others may hold them too.
    pub requested: Option<u32>,
    /// Whether it requests no number of GPUs.
    pub is_uncounted: bool,
    /// GPUs that it requests on a Node whose GPUs are shared and have no series.
    pub unseen_shared: u32,
    pub claims: Vec<ClaimId>,
}

impl Holder {
    pub(crate) fn started(&self) -> Timestamp {
        self.pod.started.unwrap_or(Timestamp::MIN)
    }
}

/// A line that names a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Naming {
    device: u32,
    pod: PodId,
    row: RowId,
    on_node: bool,
}

impl Layout {
    /// Finds the pods, and the devices whose series name them.
    pub(super) fn find_claims(&mut self, lines: &[&Named<'_>], inventory: &Inventory) {
        let shared = inventory
            .nodes
            .iter()
            .filter(|node| is_shared(&node.labels));
        let shared: BTreeSet<&str> = shared.map(|node| &*node.name).collect();
        let mut pods = Pods {
            holders: Vec::new(),
            listed: HashMap::new(),
            unlisted: HashMap::new(),
            shared,
            by_name: OnceCell::new(),
            inventory,
        };
        let pending = inventory.pods.iter();
        for pod in pending.filter(|pod| pod.gpus > 0 && pod.is_live()) {
            pods.of(pod);
        }
        let found = lines.iter().filter_map(|named| {
            let pod = pods.named(named)?;
            let node = pods.holders[pod as usize].pod.node.as_ref();
            Some(Naming {
                device: self.device_of[named.row.0 as usize],
                pod,
                row: named.row,
                on_node: named.node.is_some() && named.node == node,
            })
        });
        let mut found: Vec<Naming> = found.collect();
        found.sort_unstable();
        self.pods = pods.holders;
        let key = |it: &Naming| (it.device, it.pod);
        for lines in found.chunk_by(|one, other| key(one) == key(other)) {
            let Naming { device, pod, .. } = lines[0];
            // A pod that series name at a GPU and at a MIG instance of it holds the instance.
            let is_named = |it| found.binary_search_by_key(&(it, pod), key).is_ok();
            if self.instances_of(device).any(is_named) {
                continue;
            }
            let id = u32::try_from(self.claims.len()).unwrap_or(u32::MAX);
            let claims = &mut self.devices[device as usize].claims;
            if claims.start == claims.end {
                claims.start = id;
            }
            claims.end = id + 1;
            self.pods[pod as usize].claims.push(id);
            self.claims.push(Claim {
                device,
                pod,
                on_node: lines.iter().any(|it| it.on_node),
                lines: lines.iter().map(|it| it.row).collect(),
            });
        }
        let nodes = self.devices.iter().filter_map(|it| it.node.as_ref());
        let nodes: BTreeSet<&Arc<str>> = nodes.collect();
        for holder in self.pods.iter_mut().filter(|it| it.unseen_shared > 0) {
            let node = holder.pod.node.as_ref();
            if node.is_some_and(|it| nodes.contains(it)) || !holder.claims.is_empty() {
                holder.unseen_shared = 0;
            }
        }
    }
}

/// The pod that a line names: the listed one, unless it runs on another Node than the series
/// name or started after their last sample; then the departed one of that Node.
pub(super) fn pod_of<'a>(
    line: &Line,
    node: Option<&Arc<str>>,
    newest: Timestamp,
    inventory: &'a Inventory,
) -> Option<&'a Pod> {
    let owner = line.claim.owner.as_ref()?;
    let is_there = |pod: &&Pod| node.is_none() || pod.node.is_none() || pod.node.as_ref() == node;
    let listed = inventory.pod(&owner.namespace, &owner.pod);
    let departed = || inventory.departed(&owner.namespace, &owner.pod).iter();
    let is_later = |pod: &&Pod| pod.started.is_none_or(|started| newest >= started);
    listed
        .filter(|pod| is_there(pod) && is_later(pod))
        .or_else(|| departed().find(is_there))
        .or_else(|| listed.filter(is_there))
}

/// Pods under construction.
struct Pods<'a> {
    holders: Vec<Holder>,
    listed: HashMap<*const Pod, PodId>,
    unlisted: HashMap<(&'a str, &'a str), PodId>,
    /// Nodes whose GPUs several pods may hold.
    shared: BTreeSet<&'a str>,
    by_name: OnceCell<Workloads<'a>>,
    inventory: &'a Inventory,
}

impl<'a> Pods<'a> {
    /// The pod that holds the device of a line by its labels. Bare labels may be those of the
    /// exporter, which requests no GPU.
    fn named(&mut self, named: &Named<'a>) -> Option<PodId> {
        let owner = named.line.claim.owner.as_ref()?;
        // A pod that requests a GPU may have labels that the exporter adds to its series and
        // that name another pod.
        let bare = named.line.claim.bare.as_ref();
        let bare = bare.and_then(|it| self.inventory.pod(&it.namespace, &it.pod));
        if bare.is_some_and(Pod::requests_gpu) {
            return None;
        }
        let is_bare = owner.by.are_bare() && !named.line.claim.is_proven;
        let is_cluster = self.inventory.authority == InventoryOrigin::Cluster;
        match named.pod {
            Some(pod) => (!is_bare || pod.requests_gpu()).then(|| self.of(pod)),
            None if is_cluster && self.runs_elsewhere(named) => None,
            None => Some(self.unlisted(&owner.namespace, &owner.pod)),
        }
    }

    /// Whether the pod that a line names is listed and runs on another Node.
    fn runs_elsewhere(&self, named: &Named<'_>) -> bool {
        let owner = named.line.claim.owner.as_ref();
        let listed = owner.and_then(|it| self.inventory.pod(&it.namespace, &it.pod));
        listed.is_some_and(|pod| pod.started.is_none_or(|started| named.newest >= started))
    }

    fn of(&mut self, pod: &Pod) -> PodId {
        if let Some(id) = self.listed.get(&std::ptr::from_ref(pod)) {
            return *id;
        }
        let listed = self.inventory.pods.as_ptr_range();
        let is_listed = listed.contains(&std::ptr::from_ref(pod));
        let id = self.add(pod.clone(), is_listed && pod.is_live());
        self.listed.insert(pod, id);
        id
    }

    fn unlisted(&mut self, namespace: &'a Arc<str>, name: &'a Arc<str>) -> PodId {
        if let Some(id) = self.unlisted.get(&(&**namespace, &**name)) {
            return *id;
        }
        let inventory = self.inventory;
        let by_name = self.by_name.get_or_init(|| Workloads::of(inventory));
        let pod = Pod {
            namespace: Arc::clone(namespace),
            name: Arc::clone(name),
            owners: by_name.of_pod(namespace, name),
            ..Pod::default()
        };
        let id = self.add(pod, inventory.authority == InventoryOrigin::Series);
        self.unlisted.insert((namespace, name), id);
        id
    }

    fn add(&mut self, pod: Pod, is_live: bool) -> PodId {
        let node = pod.node.as_deref();
        let on_shared = node.is_some_and(|node| self.shared.contains(node));
        let is_counted = pod.gpus > 0 && !pod.uncounted;
        self.holders.push(Holder {
            is_live,
            requested: (is_counted && !on_shared).then_some(pod.gpus),
            is_uncounted: !is_counted && !on_shared,
            unseen_shared: if on_shared && is_live { pod.gpus } else { 0 },
            pod,
            claims: Vec::new(),
        });
        u32::try_from(self.holders.len() - 1).unwrap_or(u32::MAX)
    }
}
