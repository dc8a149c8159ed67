//! The cluster's objects, reduced to what metrics need.
//!
//! Produced by the cluster watches (or by the simulator). Immutable: a change replaces it
//! as a whole.

use std::sync::Arc;

use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// A kind of object that metrics can describe.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKind {
    /// `pods`, `nodes`, `deployments.apps`: plural, with the group after the first dot,
    /// as in a request path.
    pub resource: Arc<str>,
    /// `Pod`, `Deployment`.
    pub kind: Arc<str>,
    /// `v1`, `apps/v1`.
    pub api_version: Arc<str>,
    pub namespaced: bool,
}

impl ObjectKind {
    /// A kind from its parts.
    #[must_use]
    pub fn new(resource: &str, kind: &str, api_version: &str, namespaced: bool) -> Self {
        Self {
            resource: resource.into(),
            kind: kind.into(),
            api_version: api_version.into(),
            namespaced,
        }
    }

    /// The core kind `pods`.
    #[must_use]
    pub fn pod() -> Self {
        Self::new("pods", "Pod", "v1", true)
    }

    /// The core kind `namespaces`.
    #[must_use]
    pub fn namespace() -> Self {
        Self::new("namespaces", "Namespace", "v1", false)
    }

    /// The core kind `nodes`.
    #[must_use]
    pub fn node() -> Self {
        Self::new("nodes", "Node", "v1", false)
    }
}

/// The phase of a pod, as far as metrics depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// It has not started, or it is unknown whether it has.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// Succeeded or Failed: never served again.
    Finished,
}

/// Whether a pod has been Ready since its containers started. Until then it has no value of its
/// own, because it may load a model; its GPUs count in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Startup {
    /// It has not been Ready yet.
    Starting,
    /// Readings are its own from then on: it was Ready for the first time before.
    ReadySince(Timestamp),
    /// It may have been Ready at any time.
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Its labels, for label selectors.
    pub labels: Labels,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    pub phase: PodPhase,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// `status.startTime`: samples before it belong to a predecessor of the
    /// same name (docs/numbers.md, "Rules").
    pub started: Option<Timestamp>,
    /// When its containers started; `None` while none runs. Readings of its GPUs are
    /// expected from a short time after.
    pub running_since: Option<Timestamp>,
    /// Whether it has been Ready since its containers started.
    pub startup: Startup,
    /// When it ended, if it has. Readings from then on do not belong to the pod, whatever
    /// labels the exporter writes (docs/numbers.md, "Whose a device is").
    pub ended: Option<Timestamp>,
    /// How many GPU devices (whole GPUs, MIG instances) it requests for itself.
    pub gpus: u32,
    /// Whether it requests GPUs other than by a number of devices: a share, or a resource
    /// claim, which does not name its driver.
    pub uncounted: bool,
    /// Indices into [`Inventory::workloads`]: its controller, that one's controller, and
    /// so on.
    pub owners: Vec<u32>,
}

impl Pod {
    /// Whether the pod may appear in an answer: not finished, not terminating.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.terminating && self.phase != PodPhase::Finished
    }

    /// Whether it requests GPUs in any way.
    #[must_use]
    pub const fn requests_gpu(&self) -> bool {
        self.gpus > 0 || self.uncounted
    }
}

/// A workload: an object that controls pods, directly or not.
#[derive(Clone, Debug)]
pub struct Workload {
    pub kind: ObjectKind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub labels: Labels,
    /// `metadata.creationTimestamp`: earlier readings belong to a predecessor of the same
    /// name.
    pub created: Option<Timestamp>,
}

/// A cluster-scoped object: a namespace or a node.
#[derive(Clone, Debug)]
pub struct ClusterObject {
    pub name: Arc<str>,
    pub labels: Labels,
    /// `metadata.creationTimestamp`: earlier readings belong to a predecessor of the same
    /// name.
    pub created: Option<Timestamp>,
}

impl ClusterObject {
    /// An object of a list that is sorted by name.
    pub(crate) fn find<'a>(objects: &'a [Self], name: &str) -> Option<&'a Self> {
        let place = objects.binary_search_by(|object| object.name.as_ref().cmp(name));
        place.ok().map(|place| &objects[place])
    }
}

/// A pod that looks like a DCGM exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExporterPod {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Its IP address, once it has one.
    pub address: Option<Arc<str>>,
    /// Its Node: series that name it by the pod's name or address are of this Node.
    pub node: Option<Arc<str>>,
}

/// Whether the inventory comes from the cluster or is derived from the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InventoryOrigin {
    /// From watches (or the simulator): a pod that is not listed does not exist and is
    /// never served.
    Cluster,
    /// No cluster is connected: pods, namespaces and nodes are those that the series
    /// name; label selectors see no labels.
    #[default]
    Series,
}

/// The known objects of the cluster at one time.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub authority: InventoryOrigin,
    /// When the pods were first listed; every live pod is known from then on. `None`:
    /// unknown.
    pub listed: Option<Timestamp>,
    /// Pods, sorted by namespace and name, each pair once.
    pub pods: Vec<Pod>,
    /// Departed pods in their last state, kept while their readings may count. Sorted by
    /// namespace, name and departure, the latest first.
    pub departed: Vec<Pod>,
    /// The exporters' pods, sorted by namespace and name.
    pub exporters: Vec<ExporterPod>,
    /// Namespaces, sorted by name.
    pub namespaces: Vec<ClusterObject>,
    /// Nodes, sorted by name.
    pub nodes: Vec<ClusterObject>,
    /// Addresses of Nodes, each with the name of its Node, from the status of pods there.
    pub node_addresses: Vec<(Arc<str>, Arc<str>)>,
    /// Workloads, in any order; pods refer to them by index.
    pub workloads: Vec<Workload>,
}

impl Inventory {
    #[must_use]
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods
            .binary_search_by(|pod| {
                (pod.namespace.as_ref(), pod.name.as_ref()).cmp(&(namespace, name))
            })
            .ok()
            .map(|index| &self.pods[index])
    }

    /// The pods of a namespace, or all pods, sorted.
    #[must_use]
    pub fn pods_in(&self, namespace: Option<&str>) -> &[Pod] {
        let Some(namespace) = namespace else {
            return &self.pods;
        };
        let start = self.pods.partition_point(|pod| *pod.namespace < *namespace);
        let pods = &self.pods[start..];
        &pods[..pods.partition_point(|pod| *pod.namespace == *namespace)]
    }

    /// The departed pods of that name, the latest first.
    pub(crate) fn departed(&self, namespace: &str, name: &str) -> &[Pod] {
        let key = |pod: &Pod| (pod.namespace.as_ref(), pod.name.as_ref()).cmp(&(namespace, name));
        let start = self.departed.partition_point(|pod| key(pod).is_lt());
        let end = self.departed.partition_point(|pod| key(pod).is_le());
        &self.departed[start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pods_of_a_namespace_are_its_part_of_the_sorted_list() {
        let pod = |(namespace, name): (&str, &str)| Pod {
            namespace: namespace.into(),
            name: name.into(),
            ..Pod::default()
        };
        let pods = [("a", "z"), ("b", "a"), ("b", "b"), ("ba", "a"), ("c", "a")];
        let inventory = Inventory {
            pods: pods.map(pod).into(),
            ..Inventory::default()
        };
        for (namespace, range) in [
            (None, 0..5),
            (Some("a"), 0..1),
            (Some("b"), 1..3),
            (Some("c"), 4..5),
            (Some(""), 0..0),
            (Some("bb"), 0..0),
            (Some("d"), 0..0),
        ] {
            let found = inventory.pods_in(namespace).iter().map(|pod| &*pod.name);
            let names = pods[range].iter().map(|(_, name)| *name);
            assert!(found.eq(names), "{namespace:?}");
        }
    }
}
