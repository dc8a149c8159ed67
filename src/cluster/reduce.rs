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
use crate::core::time::Timestamp;

/// Label pairs as they arrive.
pub(super) type Pairs = BTreeMap<String, String>;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) name: String,
    namespace: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) labels: Option<Pairs>,
    owner_references: Option<Vec<Reference>>,
    creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
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

/// Anything of which only the metadata counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReducedObject {
    pub(super) name: Name,
    pub(super) uid: u64,
    pub(super) labels: Pairs,
    pub(super) controller: Option<Controller>,
    pub(super) created: Option<Timestamp>,
}

/// A service with a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReducedService {
    pub(super) name: Name,
    pub(super) labels: Pairs,
    /// Empty: it selects nothing.
    pub(super) selector: Pairs,
    pub(super) created: Option<Timestamp>,
}

pub(super) fn decode<T: DeserializeOwned>(object: &RawValue) -> Result<T, Garbage> {
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
pub(super) fn fingerprint(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

/// A time as the API writes it.
pub(super) fn timestamp(text: Option<&str>) -> Option<Timestamp> {
    let time = text?.parse::<jiff::Timestamp>().ok()?;
    Some(Timestamp::from_millis(time.as_millisecond()))
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
    pub(super) fn take_name(&mut self) -> Result<Name, Garbage> {
        if self.name.is_empty() {
            return Err(Garbage("an object without a name".to_owned()));
        }
        let namespace = self.namespace.take().unwrap_or_default();
        Ok((namespace, std::mem::take(&mut self.name)))
    }

    /// The one reference that says `controller: true`. Users write these, and
    /// group and version become part of a path: what is no name of an API is
    /// no controller.
    pub(super) fn take_controller(&mut self) -> Option<Controller> {
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

/// Reduces anything to its metadata.
pub(super) fn object(object: &RawValue) -> Result<ReducedObject, Garbage> {
    let Bare { mut metadata } = decode(object)?;
    Ok(ReducedObject {
        name: metadata.take_name()?,
        uid: fingerprint(metadata.uid.as_deref().unwrap_or_default()),
        controller: metadata.take_controller(),
        created: timestamp(metadata.creation_timestamp.as_deref()),
        labels: metadata.labels.unwrap_or_default(),
    })
}

/// Reduces a service.
pub(super) fn service(object: &RawValue) -> Result<ReducedService, Garbage> {
    let ServiceWire { mut metadata, spec } = decode(object)?;
    Ok(ReducedService {
        name: metadata.take_name()?,
        created: timestamp(metadata.creation_timestamp.as_deref()),
        labels: metadata.labels.unwrap_or_default(),
        selector: spec.unwrap_or_default().selector.unwrap_or_default(),
    })
}

/// Reduces a ConfigMap to its texts.
pub(super) fn config_map(object: &RawValue) -> Result<(Name, Pairs), Garbage> {
    let ConfigMapWire { mut metadata, data } = decode(object)?;
    Ok((metadata.take_name()?, data.unwrap_or_default()))
}
