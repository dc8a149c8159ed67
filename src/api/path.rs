//! The one reader of request paths (docs/protocol.md, "Paths", "Reading a
//! path").
//!
//! Authorization and dispatch must never disagree about what a path means, so
//! both take the [`Target`] made here and nobody else looks at the path.
//! Segments are split on the raw `/` and decoded once, each by itself.

use std::borrow::Cow;

use crate::telemetry::health::Probe;

/// The longest segment, names and resources alike.
const MAX_SEGMENT: usize = 253;
/// The longest metric name.
const MAX_METRIC: usize = 512;
/// The longest DNS label: a namespace.
const MAX_LABEL: usize = 63;

/// Words that the Go parser of requests gives a meaning of their own
/// (apiserver `pkg/endpoints/request/requestinfo.go`): as a resource they would
/// be authorized as something else than what is served.
const NOT_RESOURCES: [&str; 5] = ["watch", "proxy", "status", "finalize", "metrics"];

/// The API groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `custom.metrics.k8s.io`.
    Custom,
    /// `external.metrics.k8s.io`.
    External,
}

impl Group {
    /// All groups, in the order discovery lists them.
    pub const ALL: [Self; 2] = [Self::Custom, Self::External];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Custom => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    fn version(self, name: &str) -> Option<Version> {
        let mut versions = self.versions().iter().copied();
        versions.find(|known| known.name() == name)
    }

    /// The versions, the preferred one first.
    #[must_use]
    pub const fn versions(self) -> &'static [Version] {
        match self {
            Self::Custom => &[Version::V1Beta2, Version::V1Beta1],
            Self::External => &[Version::V1Beta1],
        }
    }
}

/// The API versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1beta1`.
    V1Beta1,
    /// `v1beta2`.
    V1Beta2,
}

impl Version {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }
}

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/livez`, `/readyz`, `/healthz`: open to everybody.
    Health(Probe),
    /// `/readyz/NAME` and its like: one check, with its reason.
    HealthCheck(Probe, String),
    /// `/metrics`.
    Metrics,
    /// `/version`.
    Version,
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`: which documents there are.
    OpenApiV3,
    /// `/openapi/v3/apis/<group>/<version>`.
    OpenApiV3Of(Group, Version),
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(Group),
    /// `/apis/<group>/<version>`.
    GroupVersion(Group, Version),
    /// A custom metric: C1, C2 or C3.
    Custom(CustomTarget),
    /// An external metric: E1.
    External {
        /// The namespace.
        namespace: String,
        /// The metric, in the case it came in.
        metric: String,
    },
}

/// The pieces of a custom metric's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomTarget {
    /// The version asked.
    pub version: Version,
    /// The namespace of C2 and C3.
    pub namespace: Option<String>,
    /// What is described.
    pub object: Object,
    /// The metric.
    pub metric: String,
}

/// Which objects a path describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// C3: the namespace of the path itself.
    OwnNamespace,
    /// C1 and C2 with `*`.
    All {
        /// The resource, `plural` or `plural.group`.
        resource: String,
    },
    /// C1 and C2 with a name.
    Named {
        /// The resource, `plural` or `plural.group`.
        resource: String,
        /// The object's name.
        name: String,
    },
}

/// What a `SubjectAccessReview` must ask (docs/protocol.md, "What a review
/// asks").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'t> {
    /// `resourceAttributes`.
    Resource {
        /// The API group.
        group: &'static str,
        /// The API version.
        version: &'static str,
        /// The verb.
        verb: &'static str,
        /// The namespace, empty for cluster scope.
        namespace: &'t str,
        /// The resource; for external metrics the metric.
        resource: &'t str,
        /// The subresource: the metric of C1 and C2.
        subresource: &'t str,
        /// The object's name; for C3 the metric.
        name: &'t str,
    },
    /// `nonResourceAttributes` with verb `get`: the path as it came.
    NonResource,
}

impl Target {
    /// The attributes to authorize; `watch` says whether the query asks to
    /// watch, which changes the verb of lists only.
    #[must_use]
    pub fn attributes(&self, watch: bool) -> Attributes<'_> {
        match self {
            Self::Health(_)
            | Self::HealthCheck(..)
            | Self::Metrics
            | Self::Version
            | Self::OpenApiV2
            | Self::OpenApiV3
            | Self::OpenApiV3Of(..)
            | Self::Groups
            | Self::Group(_)
            | Self::GroupVersion(..) => Attributes::NonResource,
            Self::Custom(target) => {
                let metric = target.metric.as_str();
                let (resource, subresource, name) = match &target.object {
                    Object::OwnNamespace => ("metrics", "", metric),
                    Object::All { resource } => (resource.as_str(), metric, "*"),
                    Object::Named { resource, name } => (resource.as_str(), metric, name.as_str()),
                };
                Attributes::Resource {
                    group: Group::Custom.name(),
                    version: target.version.name(),
                    verb: "get",
                    namespace: target.namespace.as_deref().unwrap_or_default(),
                    resource,
                    subresource,
                    name,
                }
            }
            Self::External { namespace, metric } => Attributes::Resource {
                group: Group::External.name(),
                version: Version::V1Beta1.name(),
                verb: if watch { "watch" } else { "list" },
                namespace,
                resource: metric,
                subresource: "",
                name: "",
            },
        }
    }
}

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// Not a path at all; what is wrong with it.
    Malformed(&'static str),
    /// Nothing is there.
    NotFound,
}

/// Reads a raw request path.
///
/// # Errors
/// When it is malformed (400) or leads nowhere (404).
pub fn parse(raw: &str) -> Result<Target, PathError> {
    if let Some(target) = outside_of_groups(raw) {
        return Ok(target);
    }
    let rest = raw
        .strip_prefix('/')
        .ok_or(PathError::Malformed("the path does not begin with a slash"))?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let segments: Vec<Cow<'_, str>> = rest.split('/').map(decode).collect::<Result<_, _>>()?;
    if segments
        .iter()
        .any(|segment| matches!(segment.as_ref(), "" | "." | ".."))
    {
        return Err(PathError::NotFound);
    }
    below_root(&segments).ok_or(PathError::NotFound)
}

/// The paths that are no API: only in their exact spelling, because rights to
/// them are given by path, and health is open to everybody.
fn outside_of_groups(raw: &str) -> Option<Target> {
    match raw {
        "/metrics" => return Some(Target::Metrics),
        "/version" => return Some(Target::Version),
        "/openapi/v2" => return Some(Target::OpenApiV2),
        "/openapi/v3" => return Some(Target::OpenApiV3),
        _ => {}
    }
    if let Some(rest) = raw.strip_prefix("/openapi/v3/apis/") {
        let (group, version) = rest.split_once('/')?;
        let group = Group::named(group)?;
        return Some(Target::OpenApiV3Of(group, group.version(version)?));
    }
    let rest = raw.strip_prefix('/')?;
    let (probe, name) = rest.split_once('/').unwrap_or((rest, ""));
    let probe = Probe::ALL.into_iter().find(|known| known.name() == probe)?;
    let is_check = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match name {
        "" if rest == probe.name() => Some(Target::Health(probe)),
        "" => None,
        name => name
            .bytes()
            .all(is_check)
            .then(|| Target::HealthCheck(probe, name.to_owned())),
    }
}

fn below_root(segments: &[Cow<'_, str>]) -> Option<Target> {
    let (first, rest) = segments.split_first()?;
    if first != "apis" {
        return None;
    }
    let Some((group, rest)) = rest.split_first() else {
        return Some(Target::Groups);
    };
    let group = Group::named(group)?;
    let Some((version, rest)) = rest.split_first() else {
        return Some(Target::Group(group));
    };
    let version = group.version(version)?;
    match (group, rest) {
        (_, []) => Some(Target::GroupVersion(group, version)),
        (Group::Custom, rest) => custom(version, rest).map(Target::Custom),
        (Group::External, [word, namespace, metric]) if word == "namespaces" => {
            Some(Target::External {
                namespace: is_namespace(namespace).then(|| namespace.to_string())?,
                metric: is_metric(metric).then(|| metric.to_string())?,
            })
        }
        (Group::External, _) => None,
    }
}

fn custom(version: Version, segments: &[Cow<'_, str>]) -> Option<CustomTarget> {
    let (namespace, object, metric) = match segments {
        [word, namespace, metrics, metric] if word == "namespaces" && metrics == "metrics" => {
            (Some(namespace), Object::OwnNamespace, metric)
        }
        [word, namespace, resource, name, metric] if word == "namespaces" => {
            (Some(namespace), object(resource, name)?, metric)
        }
        [resource, name, metric] if resource != "namespaces" => {
            (None, object(resource, name)?, metric)
        }
        _ => return None,
    };
    if namespace.is_some_and(|namespace| !is_namespace(namespace)) || !is_metric(metric) {
        return None;
    }
    Some(CustomTarget {
        version,
        namespace: namespace.map(ToString::to_string),
        object,
        metric: metric.to_string(),
    })
}

fn object(resource: &str, name: &str) -> Option<Object> {
    if NOT_RESOURCES.contains(&resource) || !is_resource(resource) {
        return None;
    }
    let resource = resource.to_owned();
    if name == "*" {
        return Some(Object::All { resource });
    }
    (name.len() <= MAX_SEGMENT && is_path_segment(name)).then(|| Object::Named {
        resource,
        name: name.to_owned(),
    })
}

fn is_namespace(text: &str) -> bool {
    text.len() <= MAX_LABEL
        && !text.starts_with('-')
        && !text.ends_with('-')
        && is_lower_dns(text, b"-")
}

/// `[a-z0-9-]+(\.[a-z0-9.-]+)?`
fn is_resource(text: &str) -> bool {
    let (plural, group) = text.split_once('.').unwrap_or((text, "-"));
    text.len() <= MAX_SEGMENT && is_lower_dns(plural, b"-") && is_lower_dns(group, b"-.")
}

fn is_lower_dns(text: &str, others: &[u8]) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || others.contains(&byte)
        })
}

/// What client-go lets a name be (apimachinery `pkg/api/validate/content/path.go`);
/// `.` and `..` were refused before.
fn is_path_segment(text: &str) -> bool {
    !text.contains(['/', '%'])
}

fn is_metric(text: &str) -> bool {
    text.len() <= MAX_METRIC && is_path_segment(text)
}

/// Percent-decodes a segment exactly once.
fn decode(raw: &str) -> Result<Cow<'_, str>, PathError> {
    let decoded = if raw.contains('%') {
        let bytes = percent_decode(raw.as_bytes(), false).ok_or(PathError::Malformed(
            "the path holds a broken percent-encoding",
        ))?;
        if bytes.contains(&b'/') {
            return Err(PathError::Malformed("the path holds an encoded slash"));
        }
        let text =
            String::from_utf8(bytes).map_err(|_| PathError::Malformed("the path is not UTF-8"))?;
        Cow::Owned(text)
    } else {
        Cow::Borrowed(raw)
    };
    if decoded.chars().any(char::is_control) {
        return Err(PathError::Malformed("the path holds a control character"));
    }
    if decoded.contains('\\') {
        return Err(PathError::Malformed("the path holds a backslash"));
    }
    Ok(decoded)
}

/// Decodes `%XX` once; `plus` reads `+` as a space, as query strings do.
/// `None` when a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decode(raw: &[u8], plus: bool) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        match byte {
            b'%' => {
                let value = digit(raw.get(at))? * 16 + digit(raw.get(at + 1))?;
                out.push(u8::try_from(value).ok()?);
                at += 2;
            }
            b'+' if plus => out.push(b' '),
            _ => out.push(byte),
        }
    }
    Some(out)
}
