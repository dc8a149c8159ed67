//! Which pods hold a device at an instant.
//!
//! One rule: a pod holds at most as many GPUs as it requests, those on its own Node first,
//! and of these the ones that named it last. It holds them until it ends.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::time::Timestamp;

use crate::grid::RowId;
use crate::layout::{ClaimId, PodId};

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

/// The pods that series name as the holders of devices, and those that devices name.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    pub(crate) claims: Vec<Claim>,
    pub(crate) ids: HashMap<(u32, PodId), ClaimId>,
}

impl ClaimTable {
    /// Adds a line that names a pod.
    pub(crate) fn add(&mut self, device: u32, pod: PodId, row: RowId, on_node: bool) {
        let next = u32::try_from(self.claims.len()).unwrap_or(u32::MAX);
        let id = *self.ids.entry((device, pod)).or_insert(next);
        if id == next {
            self.claims.push(Claim {
                device,
                pod,
                on_node: false,
                lines: Vec::new(),
            });
        }
        let claim = &mut self.claims[id as usize];
        claim.on_node |= on_node;
        claim.lines.push(row);
    }
}

/// A pod as claims need it.
#[derive(Clone, Debug)]
pub struct Holder {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub node: Option<Arc<str>>,
    /// Whether it lives and is not ending.
    pub is_live: bool,
    /// Whether it is listed or departed; series name it otherwise.
    pub is_known: bool,
    pub started: Timestamp,
    /// When its containers started.
    pub running_since: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// How many GPUs it requests for itself; `None`: unknown, or others may hold them too.
    pub requested: Option<u32>,
    /// Whether it requests no number of GPUs.
    pub is_uncounted: bool,
    /// GPUs that it requests on a Node whose GPUs are shared and have no series.
    pub unseen_shared: u32,
    /// Its workloads, by their place in the inventory.
    pub owners: Vec<u32>,
    pub claims: Vec<ClaimId>,
}
