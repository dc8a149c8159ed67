//! Which devices and claims belong to which object: pods, workloads, namespaces, nodes and
//! the cluster as a whole.
//!
//! Rebuilt only when a line or the inventory changes. Members are in the order of their
//! devices, so that every replica sums readings in the same order.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

use crate::claim::ClaimTable;
pub use crate::claim::{Claim, Holder};
use crate::clusters::{Clusters, Proof};
use crate::dcgm::schemes;
use crate::grid::RowId;
use crate::inventory::{ClusterObject, Inventory, InventoryOrigin, ObjectKind, Pod};
use crate::line::Line;
use crate::nodes::{NodeNames, is_shared};
use crate::policy::MigWeight;
use crate::series::{Device, Scheme};
use crate::workloads::Workloads;

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
    /// Weight in means.
    pub weight: f64,
    /// Whether lines of processes report shares of it.
    pub has_processes: bool,
    lines: std::ops::Range<usize>,
    claims: std::ops::Range<usize>,
}

/// A device of an object; of objects that consist of pods, by one claim of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub device: u32,
    pub claim: Option<ClaimId>,
}

/// The readings that belong to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Those of devices that the pod holds.
    Pod,
    /// Those of devices that its pods hold.
    #[default]
    Pods,
    /// Those of its devices, held or not.
    Devices,
}

/// An object with its devices, which are evaluated together.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
    pub labels: Labels,
    pub scope: Scope,
    pub members: Vec<Member>,
    /// Its live pods that request GPUs.
    pub pods: Vec<PodId>,
    /// When it was created, or the pod started; earlier readings do not belong to it.
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
    tables: Vec<KindTable>,
    cluster: Object,
    /// The nodes of lines of other clusters, as these name them.
    foreign_nodes: Vec<Arc<str>>,
    /// The clusters that series name, if they are several.
    several_clusters: Vec<Arc<str>>,
    /// Claims by device.
    by_device: Vec<ClaimId>,
    /// Devices by the name of their node.
    by_node: HashMap<Option<Arc<str>>, Vec<u32>>,
    inventory: Arc<Inventory>,
}

/// A line with what it names.
struct Named<'a> {
    row: RowId,
    line: &'a Arc<Line>,
    node: Option<&'a Arc<str>>,
    pod: Option<&'a Pod>,
    newest: Timestamp,
}

impl Layout {
    /// Assigns lines to devices and pods. `newest` gives the time of a line's newest sample.
    pub(crate) fn build<'a>(
        lines: impl Iterator<Item = (RowId, &'a Arc<Line>)>,
        newest: impl Fn(RowId) -> Timestamp,
        inventory: &Arc<Inventory>,
        mig_weight: MigWeight,
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
        let foreign = Foreign::among(&named, inventory);
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
        layout.find_devices(&local, mig_weight);
        layout.find_claims(&local, inventory);
        layout.find_objects(inventory);
        layout.inventory = Arc::clone(inventory);
        layout
    }

    /// Groups lines into devices: a UUID on a node. A line without a node joins the first
    /// device of its UUID.
    fn find_devices(&mut self, lines: &[&Named<'_>], mig_weight: MigWeight) {
        let node_of = |named: &Named<'_>| {
            let of_pod = || named.pod.and_then(|pod| pod.node.clone());
            named.node.cloned().or_else(of_pod)
        };
        let mut nodes: HashMap<&Device, BTreeSet<Arc<str>>> = HashMap::new();
        for named in lines {
            let known = nodes.entry(&named.line.device).or_default();
            known.extend(node_of(named));
        }
        let mut sorted: Vec<(u128, &Device, Option<Arc<str>>, &Named<'_>)> = lines
            .iter()
            .map(|named| {
                let device = &named.line.device;
                let first = || nodes.get(device)?.first().cloned();
                let node = node_of(named).or_else(first);
                (beginning(device), device, node, *named)
            })
            .collect();
        sorted.sort_unstable_by(|one, other| {
            let key = |it: &(u128, &Device, Option<Arc<str>>, &Named<'_>)| it.0;
            let uuid = one.1.uuid.cmp(&other.1.uuid);
            let uuid = key(one).cmp(&key(other)).then(uuid);
            let device = uuid
                .then(one.2.cmp(&other.2))
                .then_with(|| one.1.cmp(other.1));
            device.then_with(|| (one.3.line.rank, one.3.row).cmp(&(other.3.line.rank, other.3.row)))
        });
        let mut boards = 0;
        let mut before: Option<(&Device, Option<Arc<str>>)> = None;
        for (place, (_, device, node, named)) in sorted.into_iter().enumerate() {
            let is_same =
                |known: &(&Device, Option<Arc<str>>)| known.0 == device && known.1 == node;
            if !before.as_ref().is_some_and(is_same) {
                let is_board = |known: &(&Device, Option<Arc<str>>)| {
                    known.0.uuid == device.uuid && known.1 == node
                };
                let shares_board = before.as_ref().is_some_and(is_board);
                boards += u32::from(!shares_board);
                if shares_board
                    && device.is_mig()
                    && let Some(whole) = self.devices.last_mut()
                    && !whole.device.is_mig()
                {
                    whole.has_instances = true;
                }
                let best = named.line.nodes.first();
                let best = best.filter(|it| it.rank < schemes::POD_RANK);
                let best = best.map(|node| Arc::clone(&node.name));
                self.devices.push(DeviceFacts {
                    device: device.clone(),
                    node: node.clone().or(best),
                    board: boards,
                    has_instances: false,
                    weight: match mig_weight {
                        MigWeight::Equal => 1.0,
                        MigWeight::Slices => f64::from(device.slices()),
                    },
                    has_processes: false,
                    lines: place..place,
                    claims: 0..0,
                });
                before = Some((device, node));
            }
            if let Some(of) = self.devices.last_mut() {
                of.lines.end = place + 1;
                of.has_processes |= named.line.is_process;
            }
            self.order.push(named.row);
            self.device_of[named.row.0 as usize] =
                u32::try_from(self.devices.len() - 1).unwrap_or(u32::MAX);
        }
    }

    /// Finds the pods, and the devices whose series name them.
    fn find_claims(&mut self, lines: &[&Named<'_>], inventory: &Inventory) {
        let shared = inventory
            .nodes
            .iter()
            .filter(|node| is_shared(&node.labels));
        let shared: BTreeSet<&str> = shared.map(|node| &*node.name).collect();
        let mut pods = Pods {
            holders: Vec::new(),
            ids: HashMap::new(),
            shared,
            by_name: std::cell::OnceCell::new(),
            inventory,
        };
        for pod in inventory
            .pods
            .iter()
            .filter(|pod| pod.gpus > 0 && pod.is_live())
        {
            pods.of(pod);
        }
        let mut table = ClaimTable::default();
        for named in lines {
            let device = self.device_of[named.row.0 as usize];
            let Some(pod) = pods.named(named) else {
                continue;
            };
            let node = named
                .node
                .is_some_and(|node| pods.holders[pod as usize].node.as_ref() == Some(node));
            table.add(device, pod, named.row, node);
        }
        self.pods = pods.holders;
        // A pod that series name at a GPU and at a MIG instance of it holds the instance.
        let ClaimTable { mut claims, ids } = table;
        claims.retain(|claim| {
            let mut instances = self.instances_of(claim.device);
            !instances.any(|instance| ids.contains_key(&(instance, claim.pod)))
        });
        self.claims = claims;
        let mut by_device: Vec<ClaimId> = (0..).take(self.claims.len()).collect();
        by_device.sort_unstable_by_key(|claim| {
            let of = &self.claims[*claim as usize];
            (of.device, of.pod)
        });
        for (place, claim) in by_device.iter().enumerate() {
            let of = &self.claims[*claim as usize];
            self.pods[of.pod as usize].claims.push(*claim);
            let claims = &mut self.devices[of.device as usize].claims;
            if claims.start == claims.end {
                *claims = place..place;
            }
            claims.end = place + 1;
        }
        self.by_device = by_device;
        let with_devices: BTreeSet<&Arc<str>> = self
            .devices
            .iter()
            .filter_map(|device| device.node.as_ref())
            .collect();
        for pod in &mut self.pods {
            let is_seen = !pod.claims.is_empty()
                || pod
                    .node
                    .as_ref()
                    .is_some_and(|it| with_devices.contains(it));
            if is_seen {
                pod.unseen_shared = 0;
            }
        }
    }

    fn find_objects(&mut self, inventory: &Inventory) {
        let mut building = Building::default();
        let mut by_node: HashMap<Option<Arc<str>>, Vec<u32>> = HashMap::new();
        for (id, pod) in (0..).zip(&self.pods) {
            let members: Vec<Member> = pod.claims.iter().map(|claim| self.member(*claim)).collect();
            let expects = pod.is_live && (pod.requested.is_some() || pod.unseen_shared > 0);
            building.add_pod(inventory, (id, pod), &members, expects);
        }
        for (place, device) in (0..).zip(&self.devices) {
            let member = Member {
                device: place,
                claim: None,
            };
            by_node.entry(device.node.clone()).or_default().push(place);
            building.cluster.members.push(member);
            let is_series = inventory.authority == InventoryOrigin::Series;
            if let Some(node) = &device.node
                && (is_series || ClusterObject::find(&inventory.nodes, node).is_some())
            {
                building.node(inventory, node).members.push(member);
            }
        }
        self.by_node = by_node;
        self.cluster = std::mem::take(&mut building.cluster);
        self.cluster.scope = Scope::Devices;
        self.cluster.created = Timestamp::MIN;
        self.tables = building.finish(inventory);
    }

    fn member(&self, claim: ClaimId) -> Member {
        Member {
            device: self.claims[claim as usize].device,
            claim: Some(claim),
        }
    }

    /// The lines of a device.
    #[must_use]
    pub fn lines_of(&self, device: u32) -> &[RowId] {
        let lines = self.devices.get(device as usize).map(|it| it.lines.clone());
        lines.and_then(|lines| self.order.get(lines)).unwrap_or(&[])
    }

    /// The claims to a device.
    #[must_use]
    pub fn claims_of(&self, device: u32) -> &[ClaimId] {
        let claims = self
            .devices
            .get(device as usize)
            .map(|it| it.claims.clone());
        claims
            .and_then(|claims| self.by_device.get(claims))
            .unwrap_or(&[])
    }

    /// The other devices on a device's node.
    pub(crate) fn neighbours(&self, device: u32) -> impl Iterator<Item = u32> {
        let node = self.devices.get(device as usize).map(|it| it.node.as_ref());
        let devices = node.map_or(&[][..], |node| self.on_node(node));
        devices
            .iter()
            .copied()
            .filter(move |other| *other != device)
    }

    /// The devices on a node.
    pub(crate) fn on_node(&self, node: Option<&Arc<str>>) -> &[u32] {
        self.by_node.get(&node.cloned()).map_or(&[], Vec::as_slice)
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

    #[must_use]
    pub fn tables(&self) -> &[KindTable] {
        &self.tables
    }

    /// All devices of the cluster as one object.
    #[must_use]
    pub fn cluster(&self) -> &Object {
        &self.cluster
    }

    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The nodes of the series that name a pod.
    #[must_use]
    pub fn nodes_naming(&self, namespace: &str, pod: &str) -> BTreeSet<&str> {
        let lines = self.lines.iter().zip(&self.device_of);
        let naming = lines.filter(|(line, _)| {
            let owner = line.as_ref().and_then(|line| line.owner.as_ref());
            owner.is_some_and(|it| (&*it.namespace, &*it.pod) == (namespace, pod))
        });
        let devices = naming.filter_map(|(_, device)| self.devices.get(*device as usize));
        devices.filter_map(|it| it.node.as_deref()).collect()
    }

    /// The clusters that series name, if they are several.
    #[must_use]
    pub fn several_clusters(&self) -> &[Arc<str>] {
        &self.several_clusters
    }

    /// The nodes of other clusters in the store, by the names in their series.
    #[must_use]
    pub fn foreign_nodes(&self) -> &[Arc<str>] {
        &self.foreign_nodes
    }
}

/// The pod that a line names: the listed one, unless it runs on another Node than the series
/// name or started after their last sample; then the departed one of that Node.
fn pod_of<'a>(
    line: &Line,
    node: Option<&Arc<str>>,
    newest: Timestamp,
    inventory: &'a Inventory,
) -> Option<&'a Pod> {
    let owner = line.owner.as_ref()?;
    let is_there = |pod: &&Pod| node.is_none() || pod.node.is_none() || pod.node.as_ref() == node;
    let listed = inventory.pod(&owner.namespace, &owner.pod);
    let departed = || inventory.departed(&owner.namespace, &owner.pod).iter();
    let is_later = |pod: &&Pod| pod.started.is_none_or(|started| newest >= started);
    listed
        .filter(|pod| is_there(pod) && is_later(pod))
        .or_else(|| departed().find(is_there))
        .or_else(|| listed.filter(is_there))
}

/// The lines of other clusters.
struct Foreign<'a> {
    clusters: Clusters<'a>,
    /// Nodes of other clusters, as the lines of a source name them.
    nodes: HashSet<(&'a str, &'a str)>,
    /// Devices of which a line names a Node of this cluster.
    ours: HashSet<&'a Device>,
}

impl<'a> Foreign<'a> {
    /// A line that names a pod of this cluster on a node that is no Node here, though other
    /// lines name Nodes, is of another cluster, as are all of that node.
    fn among(lines: &[Named<'a>], inventory: &Inventory) -> Self {
        let evidence = lines.iter().filter_map(|named| {
            let cluster = named.line.cluster.as_deref()?;
            Some((cluster, proof(named)))
        });
        let ours = lines.iter().filter(|named| named.node.is_some());
        let mut foreign = Self {
            clusters: Clusters::among(evidence),
            nodes: HashSet::new(),
            ours: ours.map(|named| &named.line.device).collect(),
        };
        if inventory.authority == InventoryOrigin::Cluster && !foreign.ours.is_empty() {
            let elsewhere = lines.iter().filter(|named| named.pod.is_some());
            let nodes = elsewhere.filter_map(|named| foreign.unknown_node(named));
            foreign.nodes = nodes.collect();
        }
        foreign
    }

    /// The source of a line and the name of its node, if that is no Node of this cluster.
    fn unknown_node(&self, named: &Named<'a>) -> Option<(&'a str, &'a str)> {
        let line: &'a Line = named.line;
        let is_unknown =
            named.node.is_none() && line.names_node && !self.ours.contains(&line.device);
        let name = &line.nodes.first()?.name;
        is_unknown.then_some((&line.source, name))
    }

    fn is(&self, named: &Named<'a>) -> bool {
        if proof(named) == Proof::Local {
            return false;
        }
        let node = self.unknown_node(named);
        let cluster = named.line.cluster.as_deref();
        node.is_some_and(|node| self.nodes.contains(&node))
            || cluster.is_some_and(|name| self.clusters.is_foreign(name))
    }

    fn nodes(&self) -> Vec<Arc<str>> {
        let names: BTreeSet<&str> = self.nodes.iter().map(|(_, node)| *node).collect();
        names.into_iter().map(Into::into).collect()
    }

    fn several(&self) -> Vec<Arc<str>> {
        let several = self.clusters.are_several();
        let names = self.clusters.names().filter(|_| several);
        names.map(Into::into).collect()
    }
}

/// Whether a line is of this cluster: its pod is known, and on the Node that the line names.
fn proof(named: &Named<'_>) -> Proof {
    if named.line.owner.is_none() {
        return Proof::None;
    }
    let Some(pod) = named.pod else {
        return Proof::Foreign;
    };
    match (named.node, &pod.node) {
        (Some(node), Some(own)) if node == own => Proof::Local,
        (Some(_), Some(_)) => Proof::Foreign,
        (None, _) | (_, None) => Proof::None,
    }
}

/// Pods under construction.
struct Pods<'a> {
    holders: Vec<Holder>,
    ids: HashMap<(Arc<str>, Arc<str>, Timestamp), PodId>,
    /// Nodes whose GPUs several pods may hold.
    shared: BTreeSet<&'a str>,
    by_name: std::cell::OnceCell<Workloads<'a>>,
    inventory: &'a Inventory,
}

impl<'a> Pods<'a> {
    /// The pod that holds the device of a line by its labels. Bare labels may be those of the
    /// exporter, so they name a holder only if this is known to request a GPU.
    fn named(&mut self, named: &Named<'_>) -> Option<PodId> {
        let owner = named.line.owner.as_ref()?;
        let is_bare = named.line.scheme == Some(Scheme::Bare) && !named.line.is_proven;
        let is_cluster = self.inventory.authority == InventoryOrigin::Cluster;
        match named.pod {
            Some(pod) => (!is_bare || pod.requests_gpu()).then(|| self.of(pod)),
            None if is_cluster && (is_bare || self.runs_elsewhere(named)) => None,
            None => Some(self.unlisted(&owner.namespace, &owner.pod)),
        }
    }

    /// Whether the pod that a line names is listed and runs on another Node.
    fn runs_elsewhere(&self, named: &Named<'_>) -> bool {
        let owner = named.line.owner.as_ref();
        let listed = owner.and_then(|it| self.inventory.pod(&it.namespace, &it.pod));
        listed.is_some_and(|pod| pod.started.is_none_or(|started| named.newest >= started))
    }

    fn of(&mut self, pod: &Pod) -> PodId {
        let listed = self.inventory.pod(&pod.namespace, &pod.name);
        let is_listed = listed.is_some_and(|listed| std::ptr::eq(listed, pod));
        let on_shared = pod
            .node
            .as_deref()
            .is_some_and(|node| self.shared.contains(node));
        let is_live = is_listed && pod.is_live();
        let holder = Holder {
            namespace: Arc::clone(&pod.namespace),
            name: Arc::clone(&pod.name),
            node: pod.node.clone(),
            is_live,
            is_known: true,
            started: pod.started.unwrap_or(Timestamp::MIN),
            running_since: pod.running_since,
            ended: pod.ended,
            requested: (pod.gpus > 0 && !pod.uncounted && !on_shared).then_some(pod.gpus),
            is_uncounted: !on_shared && (pod.gpus == 0 || pod.uncounted),
            unseen_shared: if on_shared && is_live { pod.gpus } else { 0 },
            owners: pod.owners.clone(),
            claims: Vec::new(),
        };
        let started = holder.started;
        self.add(holder, started)
    }

    fn unlisted(&mut self, namespace: &Arc<str>, name: &Arc<str>) -> PodId {
        let key = (Arc::clone(namespace), Arc::clone(name), Timestamp::MAX);
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let inventory = self.inventory;
        let by_name = self.by_name.get_or_init(|| Workloads::of(inventory));
        let is_series = inventory.authority == InventoryOrigin::Series;
        let holder = Holder {
            namespace: key.0,
            name: key.1,
            node: None,
            is_live: is_series,
            is_known: false,
            started: Timestamp::MIN,
            running_since: None,
            ended: inventory.listed,
            requested: None,
            is_uncounted: is_series,
            unseen_shared: 0,
            owners: by_name.of_pod(namespace, name),
            claims: Vec::new(),
        };
        self.add(holder, Timestamp::MAX)
    }

    fn add(&mut self, holder: Holder, started: Timestamp) -> PodId {
        let next = u32::try_from(self.holders.len()).unwrap_or(u32::MAX);
        let key = (
            Arc::clone(&holder.namespace),
            Arc::clone(&holder.name),
            started,
        );
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            self.holders.push(holder);
        }
        id
    }
}

/// Objects under construction.
#[derive(Default)]
struct Building {
    pods: Vec<Object>,
    namespaces: BTreeMap<Arc<str>, Object>,
    nodes: BTreeMap<Arc<str>, Object>,
    workloads: BTreeMap<u32, Object>,
    cluster: Object,
}

impl Building {
    fn add_pod(
        &mut self,
        inventory: &Inventory,
        (id, pod): (PodId, &Holder),
        members: &[Member],
        expects: bool,
    ) {
        if members.is_empty() && !expects {
            return;
        }
        let expected = expects.then_some(id);
        if pod.is_live && !members.is_empty() {
            let listed = inventory.pod(&pod.namespace, &pod.name);
            self.pods.push(Object {
                namespace: Some(Arc::clone(&pod.namespace)),
                name: Arc::clone(&pod.name),
                labels: listed.map(|it| it.labels.clone()).unwrap_or_default(),
                scope: Scope::Pod,
                members: members.to_vec(),
                pods: expected.into_iter().collect(),
                created: pod.started,
            });
        }
        let namespace = ClusterObject::find(&inventory.namespaces, &pod.namespace);
        if namespace.is_some() || inventory.authority == InventoryOrigin::Series {
            let object = self.namespaces.entry(Arc::clone(&pod.namespace));
            let object = object.or_insert_with(|| of_cluster(&pod.namespace, namespace));
            object.members.extend(members);
            object.pods.extend(expected);
        }
        for place in &pod.owners {
            let Some(workload) = inventory.workloads.get(*place as usize) else {
                continue;
            };
            let object = self.workloads.entry(*place).or_insert_with(|| Object {
                namespace: Some(Arc::clone(&workload.namespace)),
                name: Arc::clone(&workload.name),
                labels: workload.labels.clone(),
                created: workload.created.unwrap_or(Timestamp::MIN),
                ..Object::default()
            });
            object.members.extend(members);
            object.pods.extend(expected);
        }
        self.cluster.pods.extend(expected);
        if let (Some(node), Some(_)) = (&pod.node, expected) {
            self.node(inventory, node).pods.push(id);
        }
    }

    fn node(&mut self, inventory: &Inventory, name: &Arc<str>) -> &mut Object {
        let object = self.nodes.entry(Arc::clone(name));
        object.or_insert_with(|| Object {
            scope: Scope::Devices,
            ..of_cluster(name, ClusterObject::find(&inventory.nodes, name))
        })
    }

    fn finish(self, inventory: &Inventory) -> Vec<KindTable> {
        let table = |kind, objects: Vec<Object>| KindTable { kind, objects };
        let mut tables = vec![
            table(ObjectKind::pod(), self.pods),
            table(
                ObjectKind::namespace(),
                self.namespaces.into_values().collect(),
            ),
            table(ObjectKind::node(), self.nodes.into_values().collect()),
        ];
        for (place, object) in self.workloads {
            let kind = &inventory.workloads[place as usize].kind;
            let known = tables.iter().position(|it| it.kind == *kind);
            let at = known.unwrap_or_else(|| {
                tables.push(table(kind.clone(), Vec::new()));
                tables.len() - 1
            });
            tables[at].objects.push(object);
        }
        // A kind is served while the cluster has objects of it.
        for workload in &inventory.workloads {
            if !tables.iter().any(|it| it.kind == workload.kind) {
                tables.push(table(workload.kind.clone(), Vec::new()));
            }
        }
        for table in &mut tables {
            table.objects.retain(|object| !object.members.is_empty());
            table
                .objects
                .iter_mut()
                .for_each(|it| it.members.sort_unstable());
            let objects = &mut table.objects;
            objects.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        }
        tables.sort_by(|a, b| a.kind.cmp(&b.kind));
        tables
    }
}

fn of_cluster(name: &Arc<str>, object: Option<&ClusterObject>) -> Object {
    Object {
        name: Arc::clone(name),
        labels: object.map(|it| it.labels.clone()).unwrap_or_default(),
        created: object.and_then(|it| it.created).unwrap_or(Timestamp::MIN),
        ..Object::default()
    }
}

/// The first 16 bytes of a device's UUID. Most devices differ in them, so that a comparison
/// mostly does not read the UUIDs.
fn beginning(device: &Device) -> u128 {
    let mut bytes = [0; 16];
    for (byte, of_name) in bytes.iter_mut().zip(device.uuid.bytes()) {
        *byte = of_name;
    }
    u128::from_be_bytes(bytes)
}
