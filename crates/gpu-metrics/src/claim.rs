//! Claims: pods that the series of devices name.

use std::sync::Arc;

use apimachinery::labels::Labels;
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

/// A pod that requests GPUs, or that series name.
#[derive(Clone, Debug)]
pub struct Holder {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub labels: Labels,
    pub node: Option<Arc<str>>,
    /// Whether it lives and is not ending.
    pub is_live: bool,
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
