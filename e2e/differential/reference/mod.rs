//! The product's numbers computed slowly and plainly: loops over instants,
//! devices and pods' lines, straight from the raw samples and
//! `docs/numbers.md`. Shares no code with the product's store, layout and
//! formulas; the scrape interval is told.

mod fold;
mod group;
mod lines;
mod readings;
mod targets;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Inventory, Pod};
pub(crate) use group::Outcome;
use lines::{Device, Field, Line, Owner, Place, Standing, TargetKey, named_node, standing};
use simulator::ScrapedSeries;
use targets::{Target, targets};

/// The distance of two instants.
pub(crate) const STEP_MS: i64 = 5_000;

/// When to look, and what was read.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) now: i64,
    /// When was read, the last at `now`.
    pub(crate) polls: Vec<i64>,
    pub(crate) scrape_ms: i64,
    /// F of a target that is as late as others.
    pub(crate) fresh_ms: i64,
    pub(crate) longest_window_ms: i64,
    pub(crate) percent_as_ratio: bool,
}

impl View {
    /// The first instant that is not before a time.
    fn instant_from(&self, at: i64) -> i64 {
        -(-at).div_euclid(STEP_MS)
    }

    /// When series were forgotten last: with the first poll of each minute, after
    /// the first of all.
    fn swept(&self) -> Option<i64> {
        let minute = |at: i64| at.div_euclid(60_000);
        let later = self.polls.iter().skip(1);
        later.fold(None, |swept: Option<i64>, poll| match swept {
            Some(swept) if minute(swept) == minute(*poll) => Some(swept),
            _ => Some(*poll),
        })
    }

    /// Samples from before this time are not kept.
    fn oldest(&self) -> i64 {
        self.now - self.longest_window_ms - self.fresh_ms - STEP_MS
    }
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
    targets: BTreeSet<TargetKey>,
    /// The one that is read, or was read last, with the longest F of all of them.
    target: Target,
    /// Some lines may be one process' share.
    share: bool,
    /// Its first sample and its newest.
    heard: (i64, i64),
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

/// The reference at one moment.
pub(crate) struct Reference {
    view: View,
    rows: Vec<Row>,
    /// Rows by device.
    of_device: HashMap<Device, Vec<usize>>,
    /// MIG instances' rows by the UUID of their card.
    instances: HashMap<String, Vec<usize>>,
    kinds: BTreeMap<String, Objects>,
    /// Devices that have had the place of a device, besides it.
    rivals: HashMap<Device, BTreeSet<Device>>,
}

impl Reference {
    pub(crate) fn new(
        view: View,
        series: impl Iterator<Item = ScrapedSeries>,
        inventory: &Inventory,
    ) -> Self {
        let lines = series.map(|series| Line::new(&series));
        let is_read = |line: &Line| line.device.1.is_some() || !line.field.is_for_instances();
        let lines: Vec<Line> = lines.filter(is_read).collect();
        let targets = targets(&lines, &view);
        let lag_ms = targets.values().map(|target| target.lag_ms).max();
        let forgotten = view.swept().map_or(i64::MIN, |swept| {
            view.oldest() - (view.now - swept) - lag_ms.unwrap_or(0) - STEP_MS
        });
        let mut of_row: BTreeMap<(Device, Option<Owner>), Vec<Line>> = BTreeMap::new();
        let is_live = |line: &Line| {
            let owner = line.owner.as_ref();
            let pod = owner.and_then(|(namespace, pod, _)| inventory.pod(namespace, pod));
            pod.is_some_and(Pod::is_live)
        };
        for line in lines {
            let newest = line.samples.last().map(|(at, _)| *at);
            if newest >= Some(forgotten) || (newest.is_some() && is_live(&line)) {
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
            rivals: HashMap::new(),
        };
        let mut places: BTreeMap<Place, BTreeSet<Device>> = BTreeMap::new();
        for line in of_row.values().flatten() {
            if let Some(place) = line.place.clone() {
                places.entry(place).or_default().insert(line.device.clone());
            }
        }
        for devices in places.values().filter(|devices| devices.len() > 1) {
            for device in devices {
                let rivals = reference.rivals.entry(device.clone()).or_default();
                rivals.extend(devices.iter().filter(|it| *it != device).cloned());
            }
        }
        let mut seen = HashSet::new();
        let mut holders: BTreeMap<Device, BTreeSet<(String, String)>> = BTreeMap::new();
        for (key, lines) in of_row {
            let owner = key.1.map(|(namespace, pod, _)| (namespace, pod));
            let standing = reference.add_row(key.0.clone(), &lines, inventory, &targets);
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
        lines: &[Line],
        inventory: &Inventory,
        targets: &BTreeMap<TargetKey, Target>,
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
        let of_row = || lines.iter().filter_map(|line| targets.get(&line.target));
        let Some(best) = of_row().min_by_key(|it| (it.silent, -it.newest)) else {
            return standing;
        };
        let alike = of_row().filter(|it| it.silent == best.silent);
        let target = Target {
            fresh_ms: alike.map(|it| it.fresh_ms).fold(best.fresh_ms, i64::max),
            ..*best
        };
        let row = Row {
            device,
            standing,
            started: millis(pod.and_then(|pod| pod.started)).unwrap_or(i64::MIN),
            running_since: millis(pod.and_then(|pod| pod.running_since)),
            node,
            targets: lines.iter().map(|line| line.target.clone()).collect(),
            share: lines.iter().any(|line| line.share),
            target,
            heard: (times().min().unwrap_or(i64::MAX), newest),
            cells: self.view.cells(lines),
            mixed: self.view.mixed(lines),
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

    /// Whether there are readings of pods that have gone.
    pub(crate) fn some_went(&self) -> bool {
        let went = |row: &Row| row.standing == Standing::Gone || row.heard.0 < row.started;
        self.rows.iter().any(went)
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
