//! The target of a watch, and the store that receives its objects.

use std::time::Duration;

use serde_json::value::RawValue;

use super::error::CallError;

/// The longest pause after failures of a watch.
pub(super) const WAIT_MOST: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// `metadata` only (`meta.k8s.io/v1 PartialObjectMetadata`).
    Metadata,
}

impl Form {
    pub(super) const fn of_list(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        }
    }

    pub(super) const fn of_watch(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Path of the collection: `/api/v1/pods`.
    pub(super) path: String,
    pub(super) fields: &'static str,
    pub(super) form: Form,
    pub(super) remedy: String,
    /// The longest wait after a failure.
    pub(super) wait_most: Duration,
}

impl Target {
    /// All objects of a collection.
    pub(super) fn new(group: &str, api_version: &str, plural: &str, form: Form) -> Self {
        let root = if group.is_empty() { "api" } else { "apis" };
        Self {
            path: format!("/{root}/{api_version}/{plural}"),
            fields: "",
            form,
            remedy: format!(
                "add to the server's ClusterRole: \
                 {{apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [\"list\", \"watch\"]}}"
            ),
            wait_most: WAIT_MOST,
        }
    }
}

/// Receives the objects of a watch.
pub(super) trait Store: Send {
    /// A list begins: objects that are not in it are removed when it is complete.
    fn begin(&mut self) {}
    /// An object was added or changed. If it cannot be read it is not kept, and the error
    /// gives the reason.
    fn put(&mut self, object: &RawValue) -> Result<(), String>;
    fn remove(&mut self, _: &RawValue) {}
    fn complete(&mut self) {}
    /// A call failed; the objects stay.
    fn failed(&mut self, _: &CallError) {}
    fn len(&self) -> usize;
    /// The expected object that is missing; `None`: nothing is missing.
    fn lacking(&self) -> Option<&'static str> {
        None
    }
}
