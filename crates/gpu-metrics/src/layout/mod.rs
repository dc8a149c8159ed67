//! Which rows belong to which object: pods, workloads, namespaces, nodes and the cluster
//! as a whole.
//!
//! Rebuilt only when a row or the inventory changes. Members are in the order of their
//! devices, so that every replica sums readings in the same order.

mod build;
mod claim;
mod exporters;
mod foreign;
mod gather;
mod names;
mod nodes;
mod resolved;
mod slots;
mod unseen;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::grid::RowId;
use super::inventory::{Inventory, InventoryOrigin, ObjectKind};
use super::store::DeviceRow;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The result of a row's claim to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribution {
    /// A live pod holds the device.
    Held,
    /// No pod holds it: it has no pod labels, or only the exporter's own.
    Unheld,
    /// The pod is finished, terminating or no longer known: its past readings count for
    /// groups (workload, namespace, node, cluster), not for any pod.
    Gone,
    /// The pod runs on another node than the series names: the reading counts for no pod.
    Conflict,
    /// The series belongs to another cluster, whose pods may have the names of local ones.
    Foreign,
}

impl Attribution {
    /// Whether a pod held the device when it was read, even if it is gone now.
    pub(crate) const fn was_held(self) -> bool {
        matches!(self, Self::Held | Self::Gone)
    }
}

/// The facts of a row besides its readings.
#[derive(Clone, Debug)]
pub struct RowFacts {
    pub id: RowId,
    /// The row in the store.
    pub row: Arc<DeviceRow>,
    /// The node of the device: the Node that its series name, otherwise its pod's,
    /// otherwise the best name in the series.
    pub node: Option<Arc<str>>,
    /// Rank of the device among all devices.
    pub device: u32,
    /// The result of its claim.
    pub attribution: Attribution,
    /// Whether the device is a MIG instance.
    pub is_mig: bool,
    /// Whether the device is a GPU that has MIG instances.
    pub has_instances: bool,
    /// Whether another device has had its place behind the same exporter.
    pub shares_slot: bool,
    /// Samples before this time belong to a predecessor of the same name.
    pub started: Timestamp,
    /// Samples from this time on count for no pod: the pod had ended, or never existed.
    /// [`Timestamp::MAX`]: it has not ended, or the time is unknown.
    pub ended: Timestamp,
    /// When the containers of its pod started; `None` if unknown.
    pub running_since: Option<Timestamp>,
    /// Weight in means.
    pub weight: f64,
}

impl RowFacts {
    /// Whether a pod held the device when a sample of the row was taken.
    pub(crate) fn was_held_at(&self, at: Timestamp) -> bool {
        self.attribution.was_held() && at < self.ended
    }
}

/// The rank of a row's device, which is read far more often than the other facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    pub device: u32,
    /// The rank of its board, which a GPU and its MIG instances share.
    pub board: u32,
}

impl Rank {
    const NONE: Self = Self {
        device: u32::MAX,
        board: u32::MAX,
    };
}

/// An object with its rows. Its devices are evaluated together.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
    pub labels: Labels,
    /// Its rows, in the order of their devices.
    pub members: Vec<RowId>,
    /// When it was created; earlier readings do not belong to it.
    pub created: Timestamp,
    /// Whether only readings of its pods count. A node also has the readings of devices
    /// that no pod holds.
    pub of_pods: bool,
    /// Whether it is a single pod: it may have a share of a device.
    pub one_pod: bool,
    /// GPUs that its live pods request and that were never seen.
    pub unseen: Vec<Unseen>,
}

/// GPUs that a running pod requests and that were never seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Since when the pod's containers have run.
    pub since: Timestamp,
    /// How many.
    pub count: u32,
    /// Whether several pods may share them, so that there may be fewer.
    pub shared: bool,
}

/// All objects of one kind that have rows, by namespace and name.
#[derive(Clone, Debug)]
pub struct KindTable {
    pub kind: ObjectKind,
    pub objects: Vec<Object>,
}

impl KindTable {
    fn new(kind: ObjectKind, objects: Vec<Object>) -> Self {
        Self { kind, objects }
    }

    /// The objects of a namespace (`None`: cluster-scoped), a slice of
    /// [`KindTable::objects`] that begins at the index returned.
    #[must_use]
    pub fn within(&self, namespace: Option<&str>) -> (usize, &[Object]) {
        let start = self
            .objects
            .partition_point(|o| o.namespace.as_deref() < namespace);
        let end = self
            .objects
            .partition_point(|o| o.namespace.as_deref() <= namespace);
        (start, &self.objects[start..end])
    }

    /// The index of an object.
    #[must_use]
    pub fn find(&self, namespace: Option<&str>, name: &str) -> Option<usize> {
        let (start, objects) = self.within(namespace);
        let found = objects.binary_search_by(|object| object.name.as_ref().cmp(name));
        found.ok().map(|index| start + index)
    }
}

/// The rows of each device.
#[derive(Clone, Debug, Default)]
struct Devices {
    order: Vec<RowId>,
    /// Where the rows of each device begin, by its rank.
    starts: Vec<u32>,
}

impl Devices {
    fn rows(&self, device: u32) -> &[RowId] {
        let device = device as usize;
        let starts = self.starts.get(device).copied();
        let end = self
            .starts
            .get(device + 1)
            .map_or(self.order.len(), |end| *end as usize);
        starts.map_or(&[], |start| &self.order[start as usize..end])
    }

    /// The rows of each device, in the order of the devices.
    fn all(&self) -> impl Iterator<Item = &[RowId]> {
        (0..).zip(&self.starts).map(|(device, _)| self.rows(device))
    }
}

/// Which rows belong to which object.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    tables: Vec<KindTable>,
    cluster: Object,
    several_clusters: Vec<Arc<str>>,
    foreign_nodes: Vec<Arc<str>>,
    facts: Vec<Option<RowFacts>>,
    /// The rank of each row's device.
    ranks: Vec<Rank>,
    devices: Devices,
    /// By rank of a device, the ranks of other devices that have had its place.
    slot_peers: HashMap<u32, Vec<u32>>,
    /// Rows without a sample since the start of their pod, which is the value: an earlier
    /// pod of the same name held the device.
    of_predecessors: HashMap<RowId, Timestamp>,
    inventory: Arc<Inventory>,
}

impl Layout {
    #[must_use]
    pub fn fact(&self, row: RowId) -> Option<&RowFacts> {
        self.facts.get(row.0 as usize)?.as_ref()
    }

    pub(crate) fn facts_of(&self, rows: &[RowId]) -> impl Iterator<Item = &RowFacts> {
        rows.iter().filter_map(|row| self.fact(*row))
    }

    /// Whether a row counts as missing while its pod is live, however long it is silent.
    pub(crate) fn is_missed(&self, row: RowId) -> bool {
        let facts = self.fact(row);
        self.inventory.authority == InventoryOrigin::Cluster
            && facts.is_some_and(|facts| facts.attribution == Attribution::Held)
    }

    /// Whether a row of an earlier pod has since had a sample of the live pod of the same
    /// name. `newest` returns the time of a row's newest sample.
    pub(crate) fn is_outdated(&self, newest: impl Fn(RowId) -> Timestamp) -> bool {
        let mut rows = self.of_predecessors.iter();
        rows.any(|(row, started)| newest(*row) >= *started)
    }

    pub fn facts(&self) -> impl ExactSizeIterator<Item = Option<&RowFacts>> {
        self.facts.iter().map(Option::as_ref)
    }

    /// The rank of a row's device.
    #[inline]
    #[must_use]
    pub fn rank(&self, row: RowId) -> Rank {
        let rank = self.ranks.get(row.0 as usize);
        rank.copied().unwrap_or(Rank::NONE)
    }

    /// The table of a kind, by the resource of the path.
    #[must_use]
    pub fn table(&self, resource: &str) -> Option<(usize, &KindTable)> {
        self.tables
            .iter()
            .enumerate()
            .find(|(_, table)| table.kind.resource.as_ref() == resource)
    }

    /// An object by the resource of the path, namespace (`None`: cluster-scoped) and name.
    #[must_use]
    pub fn object(&self, resource: &str, namespace: Option<&str>, name: &str) -> Option<&Object> {
        let (_, table) = self.table(resource)?;
        table.objects.get(table.find(namespace, name)?)
    }

    #[must_use]
    pub fn tables(&self) -> &[KindTable] {
        &self.tables
    }

    /// All devices of the cluster as one object.
    #[must_use]
    pub fn cluster(&self) -> &Object {
        &self.cluster
    }

    /// The clusters that series name, if they name several.
    #[must_use]
    pub fn several_clusters(&self) -> &[Arc<str>] {
        &self.several_clusters
    }

    /// The nodes of other clusters in the store whose series name no cluster, by the
    /// names in these series.
    #[must_use]
    pub fn foreign_nodes(&self) -> &[Arc<str>] {
        &self.foreign_nodes
    }

    /// The nodes of series that name a pod which does not, or no longer, hold their devices.
    #[must_use]
    pub fn nodes_of_claims(&self, namespace: &str, pod: &str) -> BTreeSet<&str> {
        let rows = self.facts.iter().flatten();
        let claims = rows.filter(|facts| {
            let owner = facts.row.owner.as_ref();
            matches!(facts.attribution, Attribution::Conflict | Attribution::Gone)
                && owner.is_some_and(|it| *it.namespace == *namespace && *it.pod == *pod)
        });
        claims.filter_map(|facts| facts.node.as_deref()).collect()
    }

    /// The rows of other devices on a row's node that one of the row's targets reports. A
    /// target without node names may stand for several exporters.
    pub(crate) fn neighbours<'l>(&'l self, of: &'l RowFacts) -> impl Iterator<Item = RowId> + 'l {
        let node = of.node.as_deref();
        let node = node.and_then(|name| self.object("nodes", None, name));
        let all = &node.unwrap_or(&self.cluster).members;
        let others = self.facts_of(all).filter(move |other| {
            let mut targets = other.row.targets.iter();
            other.device != of.device
                && targets.any(|id| of.row.targets.contains(id))
                && other.node == of.node
        });
        others.map(|other| other.id)
    }

    #[must_use]
    pub fn device_rows(&self, device: u32) -> &[RowId] {
        self.devices.rows(device)
    }

    /// The rank of a device's board.
    fn board(&self, device: u32) -> Option<u32> {
        let row = self.device_rows(device).first()?;
        Some(self.rank(*row).board)
    }

    /// The rows of each MIG instance of a GPU that has rows of its own beside theirs. A
    /// whole GPU is sorted right before its instances.
    pub(crate) fn instances_of(&self, facts: &RowFacts) -> impl Iterator<Item = &[RowId]> {
        let (has_instances, own) = (facts.has_instances, self.board(facts.device));
        let others = facts.device + 1..;
        let instances = others.take_while(move |it| has_instances && self.board(*it) == own);
        instances.map(|device| self.device_rows(device))
    }

    /// Other devices that have had the place of a device.
    #[must_use]
    pub fn slot_peers_of(&self, device: u32) -> &[u32] {
        self.slot_peers.get(&device).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }
}
