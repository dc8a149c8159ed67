//! Label names: every spelling by which a DCGM series names its device and its owner.
//!
//! The scheme is decided per series, never per cluster: one Prometheus can hold all
//! schemes at once (docs/numbers.md, "Whose a device is").

use std::sync::Arc;

use crate::line::{Device, Owner};
use apimachinery::labels::Labels;

/// Spellings of the GPU's UUID (`crate::dcgm`, "Labels"), compared case-insensitively.
const UUID: [&str; 2] = ["UUID", "gpu_uuid"];

/// Spellings of the MIG GPU-instance id and profile.
const INSTANCE: &str = "GPU_I_ID";
const PROFILE: &str = "GPU_I_PROFILE";

/// Labels that hold the GPU's model (`crate::dcgm`, "Labels").
const MODEL: [&str; 2] = ["modelName", "model_name"];

/// Labels that may name the node, best first (docs/numbers.md, "Whose a device is"). The host
/// part of `instance` is last: managed collection writes the node's name there.
const NODE: [&str; 8] = [
    "Hostname",
    "exported_hostname",
    "node",
    "exported_node",
    "kubernetes_node",
    "nodename",
    "node_name",
    "exported_node_name",
];

/// Labels that name a pod (docs/numbers.md, "Whose a device is").
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerLabels {
    pub(crate) namespace: &'static str,
    pub(crate) pod: &'static str,
    /// Of the container.
    container: &'static str,
}

const fn by([namespace, pod, container]: [&'static str; 3]) -> OwnerLabels {
    OwnerLabels {
        namespace,
        pod,
        container,
    }
}

/// The first pair that a series has names its pod, and the label after it the container. The
/// last pair may be that of the scraped exporter.
pub(crate) static OWNERS: [OwnerLabels; 5] = [
    by(["exported_namespace", "exported_pod", "exported_container"]),
    by(["namespace", "exported_pod", "exported_container"]),
    by(["pod_namespace", "pod_name", "container_name"]),
    by(["exported_namespace", "pod", "container"]),
    by(["namespace", "pod", "container"]),
];

impl OwnerLabels {
    /// Whether they may be those of the scraped exporter.
    pub(crate) fn are_bare(&self) -> bool {
        self.namespace == "namespace" && self.pod == "pod"
    }
}

/// Labels that prove that a pod holds the device: a sharing replica, a resource claim, or the
/// UID that the exporter writes beside the pod's name (`crate::dcgm`, "Labels"). Scrape
/// configurations may add the UID of the target under the same name, but that is an exporter.
const PROOF: [&str; 4] = ["vgpu", "dra_claim_name", "dra_device_name", "pod_uid"];

/// Part of the names of exporters' pods. Bare labels that name one are those of the scraped
/// pod.
const EXPORTER: &str = "dcgm-exporter";

/// The owner as the labels name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The pod named.
    pub owner: Option<Owner>,
    /// Another pod that `namespace` and `pod` name, if other labels name `owner`.
    pub bare: Option<Box<Owner>>,
    /// Whether the labels prove that the pod holds the device, as those of a resource claim
    /// do. Without proof, `namespace` and `pod` may be those of the exporter.
    pub is_proven: bool,
}

/// The value of a label, whose name matches case-insensitively; an empty value counts as
/// absent.
pub(crate) fn value<'a>(labels: &'a Labels, name: &str) -> Option<&'a str> {
    labels
        .get_ignore_case(name)
        .filter(|value| !value.is_empty())
}

/// Whether a label names a pod, its namespace or its container, or proves that one holds the
/// device. Names match case-insensitively.
#[must_use]
pub fn names_an_owner(label: &str) -> bool {
    let pairs = OWNERS
        .iter()
        .flat_map(|of| [of.namespace, of.pod, of.container]);
    let mut all = pairs.chain(PROOF);
    all.any(|name| name.eq_ignore_ascii_case(label))
}

/// Reads the owner (docs/numbers.md, "Whose a device is").
#[must_use]
pub fn claim(labels: &Labels) -> Claim {
    let get = |name: &&str| value(labels, name);
    let read = |of: &'static OwnerLabels| {
        let containers = [of.container, "container"];
        Some(Owner {
            namespace: get(&of.namespace)?.into(),
            pod: get(&of.pod)?.into(),
            container: containers.iter().find_map(get).map(Into::into),
            by: of,
        })
    };
    let is_exporter = |it: &Owner| it.by.are_bare() && it.pod.contains(EXPORTER);
    let mut owners = OWNERS.iter().filter_map(read);
    let owner = owners.next();
    let is_other = |it: &Owner| {
        let named = owner.as_ref().map(|it| (&it.namespace, &it.pod));
        named != Some((&it.namespace, &it.pod))
    };
    let bare = owners.find(|it| it.by.are_bare() && !is_exporter(it) && is_other(it));
    Claim {
        owner: owner.filter(|it| !is_exporter(it)),
        bare: bare.map(Box::new),
        is_proven: PROOF.iter().any(|name| get(name).is_some()),
    }
}

/// Reads the device; `None` when nothing identifies it.
///
/// Without a UUID (a label dropped on the way) the node, or the scraped address, and the index
/// identify it.
#[must_use]
pub fn device(labels: &Labels) -> Option<Device> {
    let uuid = UUID.iter().find_map(|name| value(labels, name));
    let uuid: Arc<str> = match uuid {
        Some(uuid) => uuid.into(),
        None => {
            let node = NODE.iter().find_map(|name| value(labels, name));
            let place = node.or_else(|| value(labels, "instance"))?;
            format!("{place}/{}", value(labels, "gpu")?).into()
        }
    };
    Some(Device {
        uuid,
        instance: value(labels, INSTANCE).map(Into::into),
        profile: value(labels, PROFILE).map(Into::into),
    })
}

/// The GPU's model.
#[must_use]
pub fn model(labels: &Labels) -> Option<&str> {
    MODEL.iter().find_map(|name| value(labels, name))
}

/// Whether a label names the node, and not only what is scraped.
pub(crate) fn names_node(labels: &Labels) -> bool {
    NODE.iter().any(|name| value(labels, name).is_some())
}

/// Candidates for the node's name, each once, the best first. The last is the scraped pod, whose
/// Node is known if it is an exporter's.
#[must_use]
pub fn nodes(labels: &Labels) -> Vec<Arc<str>> {
    let host = value(labels, "instance").map(host);
    let last = [host, value(labels, "pod")];
    let named = NODE.iter().map(|name| value(labels, name)).chain(last);
    let mut nodes: Vec<Arc<str>> = Vec::new();
    for name in named.flatten() {
        if !nodes.iter().any(|known| **known == *name) {
            nodes.push(name.into());
        }
    }
    nodes
}

/// The host of an `instance`: without the port, and without the brackets of an IPv6 address.
fn host(instance: &str) -> &str {
    if let Some(bracketed) = instance.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or(bracketed);
    }
    match instance.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        _ => instance,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_of_pods_and_of_proofs_name_an_owner_in_any_case() {
        for label in ["pod", "Exported_Pod", "container_name", "namespace", "VGPU"] {
            assert!(super::names_an_owner(label), "{label}");
        }
        for label in ["gpu", "UUID", "job", "Hostname"] {
            assert!(!super::names_an_owner(label), "{label}");
        }
    }
}
