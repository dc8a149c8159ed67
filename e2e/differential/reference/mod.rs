//! The product's numbers computed slowly and plainly: loops over instants,
//! devices and pods' lines, straight from the raw samples and
//! `docs/numbers.md`. Shares no code with the product's store, layout and
//! formulas. Only where sources and targets stand is told: the rules for that
//! have tests of their own.

mod fold;
mod group;
mod lines;
mod readings;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gpu_metrics_apiserver::core::inventory::{Inventory, Pod};
use gpu_metrics_apiserver::core::time::Timestamp;
use gpu_metrics_apiserver::simulator::ScrapedSeries;
pub(crate) use lines::{Device, Owner};
use lines::{Field, Line, Standing, named_node, standing};

/// When and how densely to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now: i64,
    pub(crate) scrape_ms: i64,
    pub(crate) step_ms: i64,
    pub(crate) fresh_ms: i64,
    pub(crate) longest_window_ms: i64,
    pub(crate) percent_as_ratio: bool,
}

impl View {
    /// The first instant that is not before a time.
    fn instant_from(&self, at: i64) -> i64 {
        -(-at).div_euclid(self.step_ms)
    }

    /// How far back anything is known.
    fn reach_ms(&self) -> i64 {
        self.longest_window_ms + self.fresh_ms + self.step_ms
    }
}

/// Where the target of a device's lines stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) source: u16,
    /// The horizon and the usual lag of its source.
    pub(crate) horizon: i64,
    pub(crate) lag_ms: i64,
    pub(crate) distance_ms: i64,
    /// Usual distance and lag of the source, the largest of all targets of the
    /// device that are heard.
    pub(crate) latest_ms: i64,
    pub(crate) newest: i64,
    pub(crate) silent: bool,
}

/// Value and time of its sample.
type Reading = (f64, i64);

/// All lines of a device that name the same pod.
struct Row {
    device: Device,
    standing: Standing,
    /// Readings before this are of another pod of the same name.
    started: i64,
    running_since: Option<i64>,
    node: Option<String>,
    targets: BTreeSet<[String; 3]>,
    /// Some lines may be one process' share.
    share: bool,
    first_heard: i64,
    heard: Option<Heard>,
    /// What the samples between the instant before and an instant say together.
    cells: HashMap<Field, BTreeMap<i64, Option<Reading>>>,
    /// Instants at which of several lines one has a reading and another's newest
    /// sample is none.
    mixed: BTreeSet<i64>,
}

/// An object's devices, with those of each one's lines that may count.
#[derive(Debug, Default)]
pub(crate) struct Members {
    devices: BTreeMap<Device, Vec<usize>>,
    /// GPUs that pods of it request and of which none was seen: since when the
    /// pod runs, and how many.
    unseen: Vec<(i64, u32)>,
    one_pod: bool,
}

/// Objects of a kind by `namespace/name` or name.
pub(crate) type Objects = BTreeMap<String, Members>;

/// One device and pod.
pub(crate) type RowKey = (Device, Option<Owner>);

/// The reference at one moment.
pub(crate) struct Reference {
    view: View,
    rows: Vec<Row>,
    /// Rows by device.
    of_device: HashMap<Device, Vec<usize>>,
    /// MIG instances' rows by the UUID of their card.
    instances: HashMap<String, Vec<usize>>,
    kinds: BTreeMap<String, Objects>,
    /// The lines of the original's field, for its own grid.
    memory_lines: Vec<Line>,
}

impl Reference {
    pub(crate) fn new(
        view: View,
        series: impl Iterator<Item = ScrapedSeries>,
        inventory: &Inventory,
        heard: &BTreeMap<RowKey, Heard>,
    ) -> Self {
        let mut of_row: BTreeMap<RowKey, Vec<Line>> = BTreeMap::new();
        let known = view.now - view.reach_ms() + 1..=view.now;
        for series in series {
            let mut line = Line::new(&series);
            line.samples.retain(|(at, _)| known.contains(at));
            let is_read = line.device.1.is_some() || !line.field.is_for_instances();
            if is_read && !line.samples.is_empty() {
                let key = (line.device.clone(), line.owner.clone());
                of_row.entry(key).or_default().push(line);
            }
        }
        let mut reference = Self {
            view,
            rows: Vec::new(),
            of_device: HashMap::new(),
            instances: HashMap::new(),
            kinds: BTreeMap::new(),
            memory_lines: Vec::new(),
        };
        let mut seen = HashSet::new();
        let mut holders: BTreeMap<Device, BTreeSet<(String, String)>> = BTreeMap::new();
        for (key, lines) in of_row {
            let heard = heard.get(&key).copied();
            let owner = key.1.map(|(namespace, pod, _)| (namespace, pod));
            let standing = reference.add_row(key.0.clone(), lines, inventory, heard);
            if let Some(owner) = owner.filter(|_| standing == Standing::Held) {
                seen.insert(owner.clone());
                holders.entry(key.0).or_default().insert(owner);
            }
        }
        let shared = holders.values().filter(|pods| pods.len() > 1).flatten();
        let shared: HashSet<_> = shared.cloned().collect();
        reference.add_unseen(inventory, &seen, &shared);
        reference
    }

    fn add_row(
        &mut self,
        device: Device,
        lines: Vec<Line>,
        inventory: &Inventory,
        heard: Option<Heard>,
    ) -> Standing {
        let mut claim = lines[0].clone();
        claim.bare = lines.iter().all(|line| line.bare);
        claim.proven = lines.iter().any(|line| line.proven);
        let nodes: Vec<String> = lines.iter().flat_map(|line| line.nodes.clone()).collect();
        let times = || {
            lines
                .iter()
                .flat_map(|line| &line.samples)
                .map(|(at, _)| *at)
        };
        let newest = times().max().unwrap_or(i64::MIN);
        let (standing, pod) = standing(&claim, &nodes, newest, inventory);
        let of_pod = || pod.and_then(|pod| pod.node.as_deref());
        let node = named_node(&nodes, inventory)
            .or_else(of_pod)
            .map(str::to_owned);
        let millis = |at: Option<Timestamp>| at.map(Timestamp::millis);
        let row = Row {
            device,
            standing,
            started: millis(pod.and_then(|pod| pod.started)).unwrap_or(i64::MIN),
            running_since: millis(pod.and_then(|pod| pod.running_since)),
            node,
            targets: lines.iter().map(|line| line.target.clone()).collect(),
            share: lines.iter().any(|line| line.share),
            first_heard: times().min().unwrap_or(i64::MAX),
            heard,
            cells: self.view.cells(&lines),
            mixed: self.view.mixed(&lines),
        };
        let id = self.rows.len();
        self.of_device
            .entry(row.device.clone())
            .or_default()
            .push(id);
        if row.device.1.is_some() {
            let card = row.device.0.clone();
            self.instances.entry(card).or_default().push(id);
        }
        self.rows.push(row);
        self.book(id, claim.owner.as_ref(), pod, inventory);
        let of_original = |line: &Line| line.field == Field::MemCopy;
        self.memory_lines
            .extend(lines.into_iter().filter(of_original));
        standing
    }

    fn members(&mut self, kind: &str, name: String) -> &mut Members {
        let objects = self.kinds.entry(kind.to_owned()).or_default();
        objects.entry(name).or_default()
    }

    /// Puts a row to every object it belongs to.
    fn book(&mut self, id: usize, owner: Option<&Owner>, pod: Option<&Pod>, inventory: &Inventory) {
        let row = &self.rows[id];
        if row.standing == Standing::Elsewhere {
            return;
        }
        let mut objects: Vec<(&str, String)> = vec![("cluster", String::new())];
        objects.extend(row.node.clone().map(|node| ("nodes", node)));
        let is_live = row.standing == Standing::Held;
        if let (true, Some((namespace, name, _))) = (row.standing != Standing::Nobody, owner) {
            if is_live {
                objects.push(("pods", format!("{namespace}/{name}")));
            }
            objects.push(("namespaces", namespace.clone()));
            objects.extend(workloads(pod, inventory));
        }
        let device = row.device.clone();
        for (kind, name) in objects {
            let members = self.members(kind, name);
            members.one_pod = kind == "pods";
            members.devices.entry(device.clone()).or_default().push(id);
        }
    }

    /// Counts the GPUs of pods of which no line was seen, for the objects that
    /// there are; not where a request is a share.
    fn add_unseen(
        &mut self,
        inventory: &Inventory,
        seen: &HashSet<(String, String)>,
        sharing: &HashSet<(String, String)>,
    ) {
        let name_of = |pod: &Pod| (pod.namespace.to_string(), pod.name.to_string());
        let sharers = inventory.pods.iter();
        let sharers = sharers.filter(|pod| sharing.contains(&name_of(pod)));
        let shared: HashSet<_> = sharers.filter_map(|pod| pod.node.as_deref()).collect();
        for pod in inventory.pods.iter().filter(|pod| pod.is_live()) {
            let (Some(since), Some(node)) = (pod.running_since, pod.node.as_deref()) else {
                continue;
            };
            let watched = inventory.exporter_nodes.iter().any(|name| **name == *node);
            if pod.gpus == 0 || !watched || shared.contains(node) || seen.contains(&name_of(pod)) {
                continue;
            }
            let objects = [
                ("cluster", String::new()),
                ("namespaces", pod.namespace.to_string()),
                ("nodes", node.to_owned()),
            ];
            for (kind, name) in objects.into_iter().chain(workloads(Some(pod), inventory)) {
                if let Some(members) = self.kinds.get_mut(kind).and_then(|o| o.get_mut(&name)) {
                    members.unseen.push((since.millis(), pod.gpus));
                }
            }
        }
    }

    /// The objects of a kind (`cluster` has one, without a name).
    pub(crate) fn objects(&self, kind: &str) -> Option<&Objects> {
        self.kinds.get(kind)
    }
}

/// Kind and name of everything that owns a pod.
fn workloads<'a>(
    pod: Option<&'a Pod>,
    inventory: &'a Inventory,
) -> impl Iterator<Item = (&'a str, String)> {
    let owners = pod.into_iter().flat_map(|pod| &pod.owners);
    owners.map(|owner| {
        let workload = &inventory.workloads[*owner as usize];
        let name = format!("{}/{}", workload.namespace, workload.name);
        (&*workload.kind.resource, name)
    })
}
