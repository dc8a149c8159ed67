//! The API groups, their versions and the kinds of their lists.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricsGroup {
    Custom,
    External,
    /// `metrics.k8s.io`: the usage of pods and nodes.
    Resource,
}

impl MetricsGroup {
    /// All groups, in the order of discovery.
    pub(crate) const ALL: [Self; 3] = [Self::Custom, Self::External, Self::Resource];

    /// The name in paths and documents.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Custom => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
            Self::Resource => "metrics.k8s.io",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    pub(crate) fn version(self, name: &str) -> Option<GroupVersion> {
        let mut versions = self.versions().iter();
        let version = *versions.find(|known| known.name() == name)?;
        Some(GroupVersion {
            group: self,
            version,
        })
    }

    /// The versions, the preferred one first.
    pub(crate) const fn versions(self) -> &'static [Version] {
        match self {
            Self::Custom => &[Version::V1Beta2, Version::V1Beta1],
            Self::External => &[Version::V1Beta1],
            Self::Resource => &[Version::V1, Version::V1Beta1],
        }
    }

    /// The kind of the group's lists of values; for resource metrics, of its lists of pods.
    pub(crate) const fn list_kind(self) -> &'static str {
        match self {
            Self::Custom => "MetricValueList",
            Self::External => "ExternalMetricValueList",
            Self::Resource => "PodMetricsList",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    V1,
    V1Beta1,
    V1Beta2,
}

impl Version {
    /// The name in paths and documents.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }
}

/// A version of a group; displayed as `<group>/<version>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupVersion {
    pub group: MetricsGroup,
    pub version: Version,
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group.name(), self.version.name())
    }
}
