//! The kinds of objects that the cluster serves, by the names in rules and requests.

use std::sync::Arc;

/// A kind as discovery lists it, in its preferred version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The preferred version: `v1`.
    pub version: Arc<str>,
    /// The plural, as in paths: `pods`.
    pub plural: Arc<str>,
    /// The singular: `pod`.
    pub singular: Arc<str>,
    /// Abbreviations: `po`.
    pub short: Vec<Arc<str>>,
    /// The kind: `Pod`.
    pub kind: Arc<str>,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Whether its objects can be listed and watched.
    pub watchable: bool,
}

impl Kind {
    /// `pods`, `deployments.apps`: as in the names of metrics.
    #[must_use]
    pub fn resource(&self) -> Arc<str> {
        if self.group.is_empty() {
            Arc::clone(&self.plural)
        } else {
            format!("{}.{}", self.plural, self.group).into()
        }
    }

    /// `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// All kinds, the core group first, then in discovery's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(Vec<Kind>);

impl Kinds {
    /// The kinds of a cluster, in discovery's order.
    #[must_use]
    pub const fn new(kinds: Vec<Kind>) -> Self {
        Self(kinds)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.iter()
    }

    /// The kind of a group and a resource: plural, singular or short name in any case. An
    /// empty group matches all groups. If no group has this name, the first group with this
    /// prefix matches. As `DefaultRESTMapper.ResourcesFor` (kubernetes/apimachinery,
    /// pkg/api/meta/restmapper.go), which has no short names.
    #[must_use]
    pub fn find(&self, group: &str, resource: &str) -> Option<&Kind> {
        let resource = resource.to_lowercase();
        let named = |kind: &&Kind| *kind.plural == *resource || *kind.singular == *resource;
        let short = |kind: &&Kind| kind.short.iter().any(|short| **short == *resource);
        self.in_group(group, named)
            .or_else(|| self.in_group(group, short))
    }

    fn in_group(&self, group: &str, is_it: impl Fn(&&Kind) -> bool) -> Option<&Kind> {
        let group = group.to_lowercase();
        let found: Vec<&Kind> = self.0.iter().filter(is_it).collect();
        let exact = found
            .iter()
            .find(|kind| group.is_empty() || *kind.group == *group);
        let prefix = || found.iter().find(|kind| kind.group.starts_with(&*group));
        exact.or_else(prefix).copied()
    }

    /// The kind of a request's resource: `pods`, `deployments.apps`, or one of their
    /// alternative names.
    #[must_use]
    pub fn of_request(&self, resource: &str) -> Option<&Kind> {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.find(group, resource)
    }
}
