//! What the labels of a series say: its device, the pod it names, its node and its source.
//!
//! All fields of a device that one scrape returns have the same labels, so they share a
//! *line*: the labels without the name of the field.

use std::sync::Arc;

use apimachinery::labels::Labels;

use crate::dcgm::schemes;
use crate::series::{Device, NodeName, Owner};

use crate::dcgm::origin;

/// Labels of a device, shared by the series of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub device: Device,
    /// The pod that the labels name.
    pub owner: Option<Owner>,
    /// Another pod that `namespace` and `pod` name, if other labels name `owner`.
    pub bare: Option<Box<Owner>>,
    /// Whether the labels prove that the pod holds the device, as those of a resource claim
    /// do. Without proof, `namespace` and `pod` may be those of the exporter.
    pub is_proven: bool,
    /// The names of the node, the best first.
    pub nodes: Vec<NodeName>,
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
        let claim = schemes::claim(labels);
        let kept = labels
            .iter()
            .filter(|(name, _)| name.as_ref() != "__name__");
        let kept = kept.map(|(name, value)| (Arc::clone(name), Arc::clone(value)));
        Some(Self {
            device: schemes::device(labels)?,
            owner: claim.owner,
            bare: claim.bare.map(Box::new),
            is_proven: claim.proven,
            nodes: schemes::nodes(labels),
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
    /// Whether a label names the node, and not only the scraped address.
    #[must_use]
    pub fn names_node(&self) -> bool {
        let best = self.nodes.first();
        best.is_some_and(|node| node.rank < schemes::NODE_RANKS)
    }
}
