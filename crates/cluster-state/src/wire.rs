//! The decoded parts of objects: only the used fields.
//!
//! Field names are those of `k8s.io/api/core/v1` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1`. An absent, null or unknown field is no
//! error; a field of another type is.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::error::excerpt;
use apimachinery::time::Timestamp;

/// Label pairs.
pub(super) type Pairs = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) struct Name {
    /// Empty: cluster-scoped.
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(bound = "S: Deserialize<'de>, T: Deserialize<'de>")]
pub(super) struct Object<S, T> {
    pub(super) metadata: Meta,
    #[serde(default = "Option::default")]
    pub(super) spec: Option<S>,
    #[serde(default = "Option::default")]
    pub(super) status: Option<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    uid: Option<String>,
    pub(super) labels: Option<Pairs>,
    owner_references: Option<Vec<OwnerReference>>,
    creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
}

/// A reference to an owner in the namespace of the object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerReference {
    api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    controller: Option<bool>,
}

impl OwnerReference {
    /// The API group; empty: core. Users write references, so the cluster may not have the group.
    pub(super) fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// The fingerprint of the UID.
    pub(super) fn uid(&self) -> u64 {
        fingerprint(&self.uid)
    }
}

/// Decodes an object that has a name.
pub(super) fn decode<S, T>(object: &RawValue) -> Result<Object<S, T>, String>
where
    S: DeserializeOwned,
    T: DeserializeOwned,
{
    let object: Object<S, T> =
        serde_json::from_str(object.get()).map_err(|error| excerpt(&error.to_string()))?;
    if object.metadata.name.is_empty() {
        return Err("an object without a name".to_owned());
    }
    Ok(object)
}

/// The name of an object, whatever else is in it.
pub(super) fn name(object: &RawValue) -> Result<Name, String> {
    let object: Object<IgnoredAny, IgnoredAny> = decode(object)?;
    Ok(Name {
        namespace: object.metadata.namespace.unwrap_or_default(),
        name: object.metadata.name,
    })
}

/// A fingerprint of a UID: it only has to distinguish an owner from an earlier one of
/// the same name.
fn fingerprint(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

/// A time in the API's format.
pub(super) fn timestamp(text: Option<&str>) -> Option<Timestamp> {
    Timestamp::from_date(text?)
}

impl Meta {
    /// The fingerprint of the UID.
    pub(super) fn uid(&self) -> u64 {
        fingerprint(self.uid.as_deref().unwrap_or_default())
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        timestamp(self.creation_timestamp.as_deref())
    }

    /// The one reference with `controller: true`.
    pub(super) fn take_controller(&mut self) -> Option<OwnerReference> {
        let references = self.owner_references.take().unwrap_or_default();
        let mut references = references.into_iter();
        references.find(|reference| reference.controller == Some(true))
    }
}
