//! The decoded fields of objects, and those that are kept.
//!
//! Field names are those of `k8s.io/api/core/v1` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1`. An absent, null or unknown field is no
//! error; a field of another type is.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::error::excerpt;
use super::pods::{KeptPod, PodSpec, PodStatus};
use super::pool::{KindName, Pool};
use super::table::Key;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::resources::GpuResources;

/// The settings for reducing objects to their kept fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// Which resource names stand for GPUs.
    pub gpus: GpuResources,
    /// How long deleted pods are kept.
    pub remember: Duration,
    /// Whether pods that have never been Ready count as all others.
    pub include_starting: bool,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            gpus: GpuResources::default(),
            remember: Duration::from_secs(600),
            include_starting: false,
        }
    }
}

/// Label pairs.
pub(super) type Pairs = BTreeMap<String, String>;

/// An object; one that is read as metadata only has neither `spec` nor `status`.
#[derive(Debug, Deserialize)]
pub(super) struct Object {
    pub(super) metadata: Metadata,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    /// `None`: cluster-scoped.
    pub(super) namespace: Option<String>,
    pub(super) resource_version: Option<String>,
    uid: Option<String>,
    labels: Option<Pairs>,
    owner_references: Option<Vec<OwnerReference>>,
    creation_timestamp: Option<Time>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
}

/// The object in a JSON text, or why it is none.
pub(super) fn decode(object: &RawValue) -> Result<Object, String> {
    serde_json::from_str(object.get()).map_err(|error| excerpt(&error.to_string()))
}

/// A fingerprint of a UID: it only has to distinguish an owner from an earlier one of
/// the same name.
fn fingerprint(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn timestamp(time: &Time) -> Timestamp {
    Timestamp::from_millis(time.0.as_millisecond())
}

/// The controller of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnerRef {
    pub(super) kind: KindName,
    pub(super) name: Arc<str>,
    pub(super) uid: u64,
}

impl OwnerRef {
    fn new(reference: &OwnerReference, pool: &mut Pool) -> Self {
        // Users write references, so the cluster may not have the group.
        let version = reference.api_version.split_once('/');
        Self {
            kind: pool.kind(version.map_or("", |(group, _)| group), &reference.kind),
            name: pool.text(&reference.name),
            uid: fingerprint(&reference.uid),
        }
    }
}

/// The kept fields of a pod, a namespace, a node or an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptObject {
    /// It differs between objects of the same name.
    pub(super) uid: u64,
    pub(super) labels: Labels,
    /// The one owner with `controller: true`.
    pub(super) controller: Option<OwnerRef>,
    pub(super) created: Option<Timestamp>,
    /// The fields of a pod; `None`: it is none.
    pub(super) pod: Option<Box<KeptPod>>,
}

impl KeptObject {
    pub(super) fn new(
        key: &Key,
        object: Object,
        pool: &mut Pool,
        settings: &WatchSettings,
    ) -> Self {
        let metadata = object.metadata;
        let labels = pool.labels(&metadata.labels.unwrap_or_default());
        let mut owners = metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let controller = controller.map(|owner| OwnerRef::new(owner, pool));
        let pod = object.spec.map(|spec| {
            let status = object.status.unwrap_or_default();
            let mut kept = KeptPod::new(key.clone(), &spec, status, pool, settings);
            kept.pod.labels = labels.clone();
            kept.pod.terminating = metadata.deletion_timestamp.is_some();
            Box::new(kept)
        });
        Self {
            uid: fingerprint(metadata.uid.as_deref().unwrap_or_default()),
            labels,
            controller,
            created: metadata.creation_timestamp.as_ref().map(timestamp),
            pod,
        }
    }
}
