//! The collection that a watch lists.

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
        }
    }
}
