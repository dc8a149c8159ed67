//! The settings for reducing objects, and the kept fields of namespaces, nodes and owners.

use std::sync::Arc;
use std::time::Duration;

use serde::de::{DeserializeOwned, IgnoredAny};

use super::pool::{KindName, Pool};
use super::wire::{Meta, Object};
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::resources::GpuResources;

/// The settings for reducing objects to their kept fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// Which resource names stand for GPUs.
    pub gpus: GpuResources,
    /// Container names of exporters.
    pub exporter_containers: Vec<String>,
    /// How long deleted pods are kept.
    pub remember: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            gpus: GpuResources::default(),
            exporter_containers: Vec::new(),
            remember: Duration::from_secs(600),
        }
    }
}

/// The kept fields of the objects of one collection.
pub(super) trait Kept: PartialEq + Sized {
    /// The decoded part of its `spec`.
    type Spec: DeserializeOwned + Send;
    /// The decoded part of its `status`.
    type Status: DeserializeOwned + Send;

    /// Reduces an object to its used fields.
    fn keep(
        object: Object<Self::Spec, Self::Status>,
        pool: &mut Pool,
        settings: &WatchSettings,
    ) -> Self;

    /// A fingerprint of the UID: it differs between objects of the same name.
    fn uid(&self) -> u64;
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnerRef {
    pub(super) kind: KindName,
    pub(super) name: Arc<str>,
    pub(super) uid: u64,
}

impl OwnerRef {
    pub(super) fn take(metadata: &mut Meta, pool: &mut Pool) -> Option<Self> {
        let controller = metadata.take_controller()?;
        Some(Self {
            kind: pool.kind(controller.group(), &controller.kind),
            name: pool.text(&controller.name),
            uid: controller.uid(),
        })
    }
}

/// The metadata of a namespace, a node, an owner or a requested object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptObject {
    uid: u64,
    pub(super) labels: Labels,
    pub(super) controller: Option<OwnerRef>,
    pub(super) created: Option<Timestamp>,
}

impl Kept for KeptObject {
    type Spec = IgnoredAny;
    type Status = IgnoredAny;

    fn keep(object: Object<IgnoredAny, IgnoredAny>, pool: &mut Pool, _: &WatchSettings) -> Self {
        let mut metadata = object.metadata;
        Self {
            uid: metadata.uid(),
            created: metadata.created(),
            controller: OwnerRef::take(&mut metadata, pool),
            labels: pool.labels(&metadata.labels.unwrap_or_default()),
        }
    }

    fn uid(&self) -> u64 {
        self.uid
    }
}
