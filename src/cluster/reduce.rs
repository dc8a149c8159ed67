//! Objects as they arrive, cut down to what is used before anything is kept.
//!
//! Field names are those of `k8s.io/api/core/v1` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1`. What is absent, null or of a later
//! version of the API is no error; what is of another type is.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::error::{Garbage, excerpt};
use crate::core::inventory::PodPhase;
use crate::core::time::Timestamp;

/// Label pairs as they arrive.
pub(super) type Pairs = BTreeMap<String, String>;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    labels: Option<Pairs>,
    owner_references: Option<Vec<Reference>>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Bare {
    metadata: Meta,
}

#[derive(Debug, Deserialize)]
struct PodWire {
    metadata: Meta,
    #[serde(default)]
    spec: Option<PodSpec>,
    #[serde(default)]
    status: Option<PodStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PodSpec {
    node_name: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    resource_claims: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Deserialize)]
struct Container {
    #[serde(default)]
    resources: Option<Resources>,
}

#[derive(Debug, Deserialize)]
struct Resources {
    #[serde(default)]
    limits: Option<BTreeMap<String, Amount>>,
    #[serde(default)]
    requests: Option<BTreeMap<String, Amount>>,
}

/// A quantity: a text, or a number where somebody wrote one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Text(String),
    Number(f64),
}

impl Amount {
    /// Whether it is more than nothing: `0`, `0.0` and `0Gi` hold no other
    /// digit.
    fn is_some(&self) -> bool {
        match self {
            Self::Text(text) => text.bytes().any(|b| matches!(b, b'1'..=b'9')),
            Self::Number(number) => *number > 0.0,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PodStatus {
    phase: Option<String>,
    start_time: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ServiceWire {
    metadata: Meta,
    #[serde(default)]
    spec: Option<ServiceSpec>,
}

#[derive(Debug, Default, Deserialize)]
struct ServiceSpec {
    #[serde(default)]
    selector: Option<Pairs>,
}

#[derive(Debug, Deserialize)]
struct ConfigMapWire {
    metadata: Meta,
    #[serde(default)]
    data: Option<Pairs>,
}

/// Namespace (empty: cluster-scoped) and name.
pub(super) type Name = (String, String);

/// The controller of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    /// API group; empty: core.
    pub(super) group: String,
    /// API version.
    pub(super) version: String,
    /// Kind.
    pub(super) kind: String,
    /// Name, in the namespace of the object.
    pub(super) name: String,
    /// Fingerprint of its UID.
    pub(super) uid: u64,
}

/// A pod as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReducedPod {
    pub(super) name: Name,
    pub(super) labels: Pairs,
    pub(super) controller: Option<Controller>,
    pub(super) node: Option<String>,
    pub(super) phase: PodPhase,
    pub(super) terminating: bool,
    pub(super) started: Option<Timestamp>,
    pub(super) requests_gpu: bool,
}

/// Anything of which only the metadata counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReducedObject {
    pub(super) name: Name,
    pub(super) uid: u64,
    pub(super) labels: Pairs,
    pub(super) controller: Option<Controller>,
}

/// A service with a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReducedService {
    pub(super) name: Name,
    pub(super) labels: Pairs,
    /// Empty: it selects nothing.
    pub(super) selector: Pairs,
}

fn decode<T: DeserializeOwned>(object: &RawValue) -> Result<T, Garbage> {
    serde_json::from_str(object.get()).map_err(|error| {
        let name = name_of(object).map_or_else(
            || "(without a name)".to_owned(),
            |(namespace, name)| format!("{namespace}/{name}"),
        );
        Garbage(excerpt(&format!("{name}: {error}")))
    })
}

/// Namespace and name, whatever else is wrong with the object.
pub(super) fn name_of(object: &RawValue) -> Option<Name> {
    #[derive(Deserialize)]
    struct Names {
        name: String,
        #[serde(default)]
        namespace: Option<String>,
    }
    #[derive(Deserialize)]
    struct Named {
        metadata: Names,
    }
    let named: Named = serde_json::from_str(object.get()).ok()?;
    Some((
        named.metadata.namespace.unwrap_or_default(),
        named.metadata.name,
    ))
}

/// A fingerprint of a UID: it only has to tell an owner from its predecessor
/// of the same name.
fn fingerprint(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

/// Whether a text may be an API's group, version or resource: letters of the
/// lower case, digits, dashes, and dots between them (RFC 1123).
pub(super) fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

impl Meta {
    fn take_name(&mut self) -> Result<Name, Garbage> {
        if self.name.is_empty() {
            return Err(Garbage("an object without a name".to_owned()));
        }
        let namespace = self.namespace.take().unwrap_or_default();
        Ok((namespace, std::mem::take(&mut self.name)))
    }

    /// The one reference that says `controller: true`. Users write these, and
    /// group and version become part of a path: what is no name of an API is
    /// no controller.
    fn take_controller(&mut self) -> Option<Controller> {
        let references = self.owner_references.take().unwrap_or_default();
        let reference = references
            .into_iter()
            .find(|reference| reference.controller == Some(true))?;
        let (group, version) = match reference.api_version.split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), reference.api_version),
        };
        if !(is_name(&version) && (group.is_empty() || is_name(&group))) {
            return None;
        }
        Some(Controller {
            group,
            version,
            kind: reference.kind,
            name: reference.name,
            uid: fingerprint(&reference.uid),
        })
    }
}

/// Whether a resource of that name is a GPU, or a part of one
/// (`dcgm.md` §2.3: `nvidia.com/gpu`, `nvidia.com/gpu.shared`,
/// `nvidia.com/mig-…`).
fn is_gpu(resource: &str) -> bool {
    resource.starts_with("nvidia.com/gpu") || resource.starts_with("nvidia.com/mig-")
}

impl Container {
    fn requests_gpu(&self) -> bool {
        let Some(resources) = &self.resources else {
            return false;
        };
        let amounts = [&resources.limits, &resources.requests];
        amounts
            .into_iter()
            .flatten()
            .flatten()
            .any(|(name, amount)| is_gpu(name) && amount.is_some())
    }
}

impl PodSpec {
    /// A GPU as a resource, or a claim: which driver serves a claim the pod
    /// does not say, and an exporter has none.
    fn requests_gpu(&self) -> bool {
        let claims = self.resource_claims.as_ref();
        claims.is_some_and(|claims| !claims.is_empty())
            || [&self.containers, &self.init_containers]
                .into_iter()
                .flatten()
                .flatten()
                .any(Container::requests_gpu)
    }
}

fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        Some("Running") => PodPhase::Running,
        Some("Succeeded" | "Failed") => PodPhase::Finished,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

/// Reduces a pod.
pub(super) fn pod(object: &RawValue) -> Result<ReducedPod, Garbage> {
    let PodWire {
        mut metadata,
        spec,
        status,
    } = decode(object)?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let started = status
        .start_time
        .and_then(|text| text.parse::<jiff::Timestamp>().ok());
    Ok(ReducedPod {
        name: metadata.take_name()?,
        controller: metadata.take_controller(),
        terminating: metadata.deletion_timestamp.is_some(),
        labels: metadata.labels.unwrap_or_default(),
        requests_gpu: spec.requests_gpu(),
        node: spec.node_name.filter(|node| !node.is_empty()),
        phase: phase(status.phase.as_deref()),
        started: started.map(|time| Timestamp::from_millis(time.as_millisecond())),
    })
}

/// Reduces anything to its metadata.
pub(super) fn object(object: &RawValue) -> Result<ReducedObject, Garbage> {
    let Bare { mut metadata } = decode(object)?;
    Ok(ReducedObject {
        name: metadata.take_name()?,
        uid: fingerprint(metadata.uid.as_deref().unwrap_or_default()),
        controller: metadata.take_controller(),
        labels: metadata.labels.unwrap_or_default(),
    })
}

/// Reduces a service.
pub(super) fn service(object: &RawValue) -> Result<ReducedService, Garbage> {
    let ServiceWire { mut metadata, spec } = decode(object)?;
    Ok(ReducedService {
        name: metadata.take_name()?,
        labels: metadata.labels.unwrap_or_default(),
        selector: spec.unwrap_or_default().selector.unwrap_or_default(),
    })
}

/// Reduces a ConfigMap to its texts.
pub(super) fn config_map(object: &RawValue) -> Result<(Name, Pairs), Garbage> {
    let ConfigMapWire { mut metadata, data } = decode(object)?;
    Ok((metadata.take_name()?, data.unwrap_or_default()))
}
