//! What the labels of a series say: its device, the pod it names, its node and its source.
//!
//! All fields of a device that one scrape returns have the same labels, so they share a
//! *line*: the labels without the name of the field.

use std::sync::Arc;

use apimachinery::labels::Labels;

use crate::dcgm::origin;
use crate::dcgm::schemes::{self, Claim, OwnerLabels};

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

/// Labels of a device, shared by the series of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub device: Device,
    /// The pod that the labels name.
    pub claim: Claim,
    /// The names of the node, the best first.
    pub nodes: Vec<Arc<str>>,
    /// Whether a label names the node, and not only the scraped address.
    pub names_node: bool,
    /// The scraped address.
    pub instance: Arc<str>,
    /// The cluster that the labels name: `cluster=prod`.
    pub cluster: Option<Arc<str>>,
    pub job: Arc<str>,
    /// The job and the external labels, as one text.
    pub source: Arc<str>,
    /// The place of the series' names in the tables of the fields: of several names of a
    /// field the first counts.
    pub rank: u8,
    /// All labels but the name.
    pub labels: Labels,
}

impl Line {
    /// Reads labels; `None`: nothing identifies the device. `rank` is the place of the name.
    #[must_use]
    pub fn read(labels: &Labels, rank: u8) -> Option<Self> {
        let kept = labels
            .iter()
            .filter(|(name, _)| name.as_ref() != "__name__");
        let kept = kept.map(|(name, value)| (Arc::clone(name), Arc::clone(value)));
        Some(Self {
            device: schemes::device(labels)?,
            claim: schemes::claim(labels),
            nodes: schemes::nodes(labels),
            names_node: schemes::names_node(labels),
            instance: schemes::value(labels, "instance")
                .unwrap_or_default()
                .into(),
            cluster: origin::cluster(labels).map(Into::into),
            job: schemes::value(labels, "job").unwrap_or_default().into(),
            source: origin::source(labels).into(),
            rank,
            labels: Labels::from_pairs(kept),
        })
    }
}
