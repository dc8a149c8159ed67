//! Which devices and claims belong to which object: pods, workloads, namespaces, nodes and
//! the cluster as a whole.
//!
//! Rebuilt only when a line or the inventory changes. Members are in the order of their
//! devices, so that every replica sums readings in the same order.

mod devices;
mod foreign;
mod nodes;
mod objects;
mod pods;
mod workloads;

use std::ops::Range;
use std::sync::Arc;

use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

use self::foreign::Foreign;
use self::nodes::NodeNames;
use self::pods::pod_of;
pub use self::pods::{Claim, Holder};
use crate::grid::RowId;
use crate::inventory::{Inventory, ObjectKind, Pod};
use crate::line::{Device, Line};

/// Index of a claim.
pub type ClaimId = u32;

/// Index of a pod.
pub type PodId = u32;

/// A GPU or MIG instance of the cluster.
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    pub device: Device,
    /// Its Node; otherwise that of its pod, otherwise the best name in its series.
    pub node: Option<Arc<str>>,
    /// The rank of its board, which a GPU and its MIG instances share.
    pub board: u32,
    /// Whether it is a GPU with MIG instances.
    pub has_instances: bool,
    lines: Range<usize>,
    claims: Range<ClaimId>,
}

/// A device of an object; of objects that consist of pods, by one claim of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub device: u32,
    pub claim: Option<ClaimId>,
}

/// An object with its devices, which are evaluated together.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
    pub labels: Labels,
    /// Whether it has devices, held or not; otherwise it has those that its pods hold.
    pub is_place: bool,
    /// Whether it is a pod that has not been Ready since its containers started.
    pub is_starting: bool,
    pub members: Vec<Member>,
    /// Its live pods that request GPUs.
    pub pods: Vec<PodId>,
    /// When it was created, or the pod started or was first Ready; earlier readings do not
    /// belong to it.
    pub created: Timestamp,
}

/// All objects of one kind that have devices, by namespace and name.
#[derive(Clone, Debug)]
pub struct KindTable {
    pub kind: ObjectKind,
    pub objects: Vec<Object>,
}

impl KindTable {
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

/// Which devices and claims belong to which object.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    pub devices: Vec<DeviceFacts>,
    pub claims: Vec<Claim>,
    pub pods: Vec<Holder>,
    /// The lines by id; of a free place `None`.
    pub lines: Vec<Option<Arc<Line>>>,
    /// The device of each line; `u32::MAX`: it is of another cluster.
    pub device_of: Vec<u32>,
    order: Vec<RowId>,
    pub tables: Vec<KindTable>,
    /// All devices of the cluster as one object.
    pub cluster: Object,
    /// The nodes of lines of other clusters, as these name them.
    pub foreign_nodes: Vec<Arc<str>>,
    /// The clusters that series name, if they are several.
    pub several_clusters: Vec<Arc<str>>,
    pub inventory: Arc<Inventory>,
}

/// A line with what it names.
struct Named<'a> {
    row: RowId,
    line: &'a Arc<Line>,
    node: Option<&'a Arc<str>>,
    pod: Option<&'a Pod>,
    newest: Timestamp,
}

impl<'a> Named<'a> {
    /// The line's Node, otherwise its pod's.
    fn home(&self) -> Option<&'a Arc<str>> {
        let of_pod = || self.pod.and_then(|pod| pod.node.as_ref());
        self.node.or_else(of_pod)
    }
}

impl Layout {
    /// Assigns lines to devices and pods. `newest` gives the time of a line's newest sample.
    pub(crate) fn build<'a>(
        lines: impl Iterator<Item = (RowId, &'a Arc<Line>)>,
        newest: impl Fn(RowId) -> Timestamp,
        inventory: &Arc<Inventory>,
    ) -> Self {
        let lines: Vec<(RowId, &Arc<Line>)> = lines.collect();
        let nodes = NodeNames::of(inventory);
        let named = lines.iter().map(|(row, line)| {
            let node = nodes.named(&line.nodes);
            let newest = newest(*row);
            let pod = pod_of(line, node, newest, inventory);
            Named {
                row: *row,
                line,
                node,
                pod,
                newest,
            }
        });
        let named: Vec<Named<'_>> = named.collect();
        let foreign = Foreign::among(&named);
        let mut layout = Self {
            foreign_nodes: foreign.nodes(),
            several_clusters: foreign.several(),
            ..Self::default()
        };
        let slots = lines.iter().map(|(row, _)| row.0 as usize + 1).max();
        layout.device_of = vec![u32::MAX; slots.unwrap_or(0)];
        layout.lines = vec![None; slots.unwrap_or(0)];
        for (row, line) in &lines {
            layout.lines[row.0 as usize] = Some(Arc::clone(line));
        }
        let local = named.iter().filter(|named| !foreign.is(named));
        let local: Vec<&Named<'_>> = local.collect();
        layout.find_devices(&local);
        layout.find_claims(&local, inventory);
        layout.find_objects(inventory);
        layout.inventory = Arc::clone(inventory);
        layout
    }

    /// The lines of a device.
    #[must_use]
    pub fn lines_of(&self, device: u32) -> &[RowId] {
        let lines = self.devices.get(device as usize).map(|it| it.lines.clone());
        lines.and_then(|lines| self.order.get(lines)).unwrap_or(&[])
    }

    /// The claims to a device.
    #[must_use]
    pub fn claims_of(&self, device: u32) -> Range<ClaimId> {
        let of = self.devices.get(device as usize);
        of.map_or(0..0, |it| it.claims.clone())
    }

    /// The MIG instances of a GPU that has series of its own beside theirs.
    pub(crate) fn instances_of(&self, device: u32) -> impl Iterator<Item = u32> {
        let facts = self.devices.get(device as usize);
        let (has, board) = facts.map_or((false, 0), |it| (it.has_instances, it.board));
        let others = self.devices.get(device as usize + 1..).unwrap_or_default();
        let instances = others.iter().take_while(move |it| has && it.board == board);
        (device + 1..).zip(instances).map(|(place, _)| place)
    }

    /// The table of a kind, by the resource of the path.
    #[must_use]
    pub fn table(&self, resource: &str) -> Option<(usize, &KindTable)> {
        let mut tables = self.tables.iter().enumerate();
        tables.find(|(_, table)| table.kind.resource.as_ref() == resource)
    }
}
