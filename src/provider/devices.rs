//! Builds the list of devices from the snapshot (docs/protocol.md, "Devices").

use std::collections::BTreeSet;
use std::sync::Arc;

use super::gpu::{GpuProvider, NOT_READY};
use super::served::ServedSnapshot;
use super::{ObjectSelection, Query, ValuesOf};
use aggregated_apiserver::refusal::Refusal;
use apimachinery::labels::Labels;
use apimachinery::quantity::milli_from_f64;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::devices::{DeviceList, DeviceReport, DeviceState, DevicesOf, IdleTime};
use gpu_metrics::inventory::PodPhase;
use gpu_metrics::layout::Object;
use gpu_metrics::snapshot::Snapshot;

/// The metrics with values in a list.
const METRICS: [&str; 7] = [
    "gpu_held_count",
    "gpu_active_count",
    "gpu_idle_count",
    MEMORY_UTILIZATION,
    "gpu_utilization",
    "gpu_memory_used",
    "gpu_power_usage",
];

/// The most objects of a list, in an answer of some 40 MB.
const MOST_OBJECTS: usize = 20_000;
const TOO_MANY: &str = "more than 20000 objects have GPUs: name a namespace or a labelSelector";

/// What a list of devices has rows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedBy {
    Pod,
    Workload,
    Namespace,
    Node,
}

impl ListedBy {
    /// The value of the parameter `by`. Namespaces and nodes are listed only for the whole
    /// cluster.
    pub(crate) fn from_parameter(by: &str, namespace: Option<&str>) -> Option<Self> {
        match (by, namespace) {
            ("pod", _) => Some(Self::Pod),
            ("workload", _) => Some(Self::Workload),
            ("namespace", None) => Some(Self::Namespace),
            ("node", None) => Some(Self::Node),
            _ => None,
        }
    }

    /// Whether objects of this resource have rows. Workloads are all owners of pods that the
    /// server knows; ReplicaSets would repeat the others.
    pub(super) fn lists(self, resource: &str) -> bool {
        match self {
            Self::Pod => resource == "pods",
            Self::Namespace => resource == "namespaces",
            Self::Node => resource == "nodes",
            Self::Workload => {
                !["pods", "namespaces", "nodes", "replicasets.apps"].contains(&resource)
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct DevicesQuery {
    pub by: ListedBy,
    /// Their namespace; `None`: all namespaces, or kinds without a namespace.
    pub namespace: Option<String>,
    pub selector: Selector,
    /// Whether pods of all namespaces may be named as holders.
    pub names_pods: bool,
    pub now: Timestamp,
}

/// The namespace, the resource, and the name.
type Key = (Option<Arc<str>>, Arc<str>, Arc<str>);

impl GpuProvider {
    /// The devices of all objects that have or request some. Rules that replace a metric
    /// do not change them.
    ///
    /// # Errors
    /// Before the first poll, and for more than [`MOST_OBJECTS`] objects.
    pub(crate) fn devices(&self, query: &DevicesQuery) -> Result<DeviceList, Refusal> {
        if self.listed().custom.is_empty() {
            return Ok(DeviceList::default());
        }
        let current = self.current.load_full();
        let current = current.as_ref().ok_or(NOT_READY)?;
        let snapshot = &current.snapshot;
        let layout = &snapshot.layout;
        let devices = layout.devices.len();
        let objects = objects(snapshot, query);
        if objects.len() > MOST_OBJECTS {
            return Err(Refusal::Malformed(TOO_MANY.to_owned()));
        }
        let objects = objects.into_iter();
        let items = objects.map(|key| self.devices_of(key, query, current));
        Ok(DeviceList {
            items: items.collect::<Result<_, _>>()?,
            device_count: (query.namespace.is_none() && devices > 0).then_some(devices),
        })
    }

    fn devices_of(
        &self,
        (namespace, resource, name): Key,
        query: &DevicesQuery,
        current: &Arc<ServedSnapshot>,
    ) -> Result<DevicesOf, Refusal> {
        let snapshot = &current.snapshot;
        let objects = ObjectSelection::named(&resource, namespace.as_deref(), &name);
        let value_query = Query {
            of: ValuesOf::Objects(objects),
            metric: MEMORY_UTILIZATION.to_owned(),
            selector: Selector::everything(),
            now: query.now,
            user: String::new(),
        };
        let lookup = self.lookup(Some(current), &value_query)?;
        let explanation = lookup.explanation(query.names_pods);
        let mut item = DevicesOf {
            namespace: namespace.as_deref().map(str::to_owned),
            resource: resource.to_string(),
            name: name.to_string(),
            no_value: explanation.no_value,
            window: explanation.window,
            device_count: explanation.device_count,
            ..DevicesOf::default()
        };
        self.read_values(&mut item, snapshot, query.now);
        // Without a value, the newest instant is outdated.
        if explanation.value.is_some() {
            let instants = explanation.instants.iter();
            item.instants = instants.map(|it| it.number).collect();
            let is_whole = explanation.devices.len() == explanation.device_count;
            item.idle_since = is_whole.then(|| idle(&explanation.devices)).flatten();
        }
        let inventory = &snapshot.layout.inventory;
        let pod = namespace.as_deref().filter(|_| &*resource == "pods");
        if let Some(pod) = pod.and_then(|namespace| inventory.pod(namespace, &name)) {
            item.running = Some(pod.phase == PodPhase::Running);
            let owners = pod.owners.iter();
            let owners = owners.filter_map(|owner| inventory.workloads.get(*owner as usize));
            let owners = owners.map(|it| format!("{}/{}", it.kind.resource, it.name));
            item.workloads = owners.collect();
        }
        item.devices = explanation.devices;
        for device in &mut item.devices {
            device.readings = vec![device.now()];
        }
        Ok(item)
    }

    /// Reads the values of an object, rounded to thousandths, and the age of the newest.
    fn read_values(&self, item: &mut DevicesOf, snapshot: &Snapshot, now: Timestamp) {
        let namespace = item.namespace.as_deref();
        let Some((kind, table)) = snapshot.layout.table(&item.resource) else {
            return;
        };
        let Some(index) = table.find(namespace, &item.name) else {
            return;
        };
        let mut newest = None;
        for metric in METRICS {
            let place = self.metric(metric).map(|(place, _)| place);
            let value = place.and_then(|place| *snapshot.values(kind, place).get(index)?);
            let value = value.filter(|value| value.is_fresh(now));
            let milli = value.and_then(|value| milli_from_f64(value.value));
            let known = milli.map(|milli| (metric.to_owned(), milli as f64 / 1000.0));
            item.values.extend(known);
            newest = newest.max(value.map(|value| value.at));
        }
        item.age_seconds = newest.map(|newest| now.since(newest).as_secs_f64());
    }
}

/// The objects that have devices, and those to which live pods with GPU requests belong.
fn objects(snapshot: &Snapshot, query: &DevicesQuery) -> BTreeSet<Key> {
    let (layout, inventory) = (&snapshot.layout, &snapshot.layout.inventory);
    let is_within = |namespace: &str| query.namespace.as_deref().is_none_or(|it| it == namespace);
    let is_selected = |labels: &Labels| query.selector.matches(labels);
    let mut found = BTreeSet::new();
    for table in &layout.tables {
        let resource = &table.kind.resource;
        let objects = table.objects.iter().filter(|object| {
            object.namespace.as_deref().is_none_or(is_within) && is_selected(&object.labels)
        });
        let objects = objects.filter(|_| query.by.lists(resource));
        let key = |it: &Object| {
            (
                it.namespace.clone(),
                Arc::clone(resource),
                Arc::clone(&it.name),
            )
        };
        found.extend(objects.map(key));
    }
    // For namespaces and nodes without devices, the selector sees no labels.
    let none = Labels::default();
    let live = inventory.pods.iter().filter(|pod| pod.is_live());
    for pod in live.filter(|pod| pod.requests_gpu() && is_within(&pod.namespace)) {
        let own = Some(&pod.namespace);
        let owners = pod.owners.iter();
        let owners = owners.filter_map(|owner| inventory.workloads.get(*owner as usize));
        let owners = owners.map(|it| (own, &*it.kind.resource, &it.name, &it.labels));
        let node = pod.node.iter().map(|node| (None, "nodes", node, &none));
        let of_pod = [
            (own, "pods", &pod.name, &pod.labels),
            (None, "namespaces", &pod.namespace, &none),
        ];
        for (namespace, resource, name, labels) in owners.chain(of_pod).chain(node) {
            if query.by.lists(resource) && is_selected(labels) {
                found.insert((namespace.cloned(), resource.into(), Arc::clone(name)));
            }
        }
    }
    found
}

/// How long all held devices have been idle; `None`: no idle device is held, or the time
/// is unknown.
fn idle(devices: &[DeviceReport]) -> Option<IdleTime> {
    let times = devices.iter().filter_map(|device| device.idle_since);
    let least = times.min_by(|one, other| one.seconds.total_cmp(&other.seconds))?;
    let is_known = |device: &DeviceReport| {
        let state = device.now().state;
        device.idle_since.is_some() || matches!(state, DeviceState::Free | DeviceState::NoReading)
    };
    (least.seconds == 0.0 || devices.iter().all(is_known)).then_some(least)
}
