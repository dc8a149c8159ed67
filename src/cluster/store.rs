//! What is watched, and the store of what a watch brings.

use std::time::Duration;

use serde_json::value::RawValue;

use super::error::{CallError, Garbage};

/// What of the objects is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All of it.
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

/// A collection to watch.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Its path: `/api/v1/pods`.
    pub(super) path: String,
    /// A field selector, or nothing.
    pub(super) fields: &'static str,
    /// What of the objects.
    pub(super) form: Form,
    /// What to do when it is forbidden.
    pub(super) remedy: String,
    /// The longest wait after a failure.
    pub(super) wait_most: Duration,
}

/// What a watch does with its objects.
pub(super) trait Store: Send {
    /// A list begins: what it does not hold is gone when it is complete.
    fn begin(&mut self) {}
    /// An object is so now.
    fn put(&mut self, object: &RawValue) -> Result<(), Refused>;
    /// An object is gone.
    fn remove(&mut self, _: &RawValue) {}
    /// The list is complete.
    fn complete(&mut self) {}
    /// A call failed; what is known stays.
    fn failed(&mut self, _: &CallError) {}
    /// How many objects are kept.
    fn len(&self) -> usize;
    /// What is not there although it should be; `None`: all is well.
    fn lacking(&self) -> Option<&'static str> {
        None
    }
}

/// Why an object is not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Garbage(#[from] Garbage),
    /// There are as many as this already.
    #[error("there are {0} already")]
    Full(usize),
}
