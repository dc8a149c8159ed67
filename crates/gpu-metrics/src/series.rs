//! What identifies a series: its device, the pod it names, its node.

use std::sync::Arc;

use crate::dcgm::schemes::OwnerLabels;

/// Labels that hold the GPU's model (`crate::dcgm`, "Labels").
pub const MODEL_LABELS: [&str; 2] = ["modelName", "model_name"];

/// A GPU or a MIG instance of one. Ordered by its text, so that every replica sums the
/// readings of devices in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The GPU's UUID; a MIG instance carries its parent's.
    pub uuid: Arc<str>,
    /// The MIG GPU-instance id; `None` for a whole GPU.
    pub instance: Option<Arc<str>>,
    /// The MIG profile, `1g.10gb`: part of the identity, because an id is reused with
    /// another profile after a reconfiguration.
    pub profile: Option<Arc<str>>,
}

impl Device {
    /// Whether this is a MIG instance.
    pub(crate) fn is_mig(&self) -> bool {
        self.instance.is_some()
    }
}

/// The pod that a series names as the holder of its device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub pod: Arc<str>,
    /// The container, where the label is present.
    pub container: Option<Arc<str>>,
    /// The labels that name it.
    pub by: &'static OwnerLabels,
}

/// A name of the device's node in a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    /// The rank of its label; 0 is the best (docs/numbers.md, "Whose a device is").
    pub rank: u8,
    pub name: Arc<str>,
}
