//! The single parser of request paths (docs/protocol.md, "Paths", "Reading a path").
//!
//! Authorization and dispatch must never interpret a path differently. Both therefore use
//! the [`ApiTarget`] made here, and no other code parses the path. Segments are split at
//! the raw `/`, and each segment is decoded once.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::provider::ObjectSelection;
use crate::provider::usage::Measured;
use crate::telemetry::health::Probe;
use aggregated_apiserver::refusal::Refusal;
use aggregated_apiserver::security::reviewer::Access;
use apimachinery::selector::Selector;

use super::group::{GroupVersion, MetricsGroup};

/// The most bytes of a segment, for names and resources.
const MAX_SEGMENT: usize = 253;
/// The most bytes of a metric name.
const MAX_METRIC: usize = 512;
/// The most bytes of a DNS label, such as a namespace.
const MAX_LABEL: usize = 63;

/// Words with a special meaning in Go's parser of requests (apiserver
/// `pkg/endpoints/request/requestinfo.go`). If one were a resource, kube-apiserver would
/// authorize another access than the one that is served.
const NOT_RESOURCES: [&str; 5] = ["watch", "proxy", "status", "finalize", "metrics"];

/// What is served at a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ApiTarget {
    /// `/livez`, `/readyz`, `/healthz`, which are open to all clients.
    Health(Probe),
    Metrics,
    /// `/openapi/v2`, `/openapi/v3`, `/openapi/v3/apis/<group>/<version>`: the path.
    OpenApi(String),
    /// `/apis`, `/apis/<group>/<version>`: the path without a slash at its end.
    Discovery(String),
    Resource(ResourceTarget),
}

/// What a path below a version is for. C1 to C3, E1, M1 to M3, F1 and D1 are the names of
/// docs/protocol.md, "Paths".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A custom metric: C1, C2 or C3.
    CustomMetric,
    /// An external metric: E1.
    ExternalMetric,
    /// The usage of pods or nodes: M1 to M3.
    Usage(Measured),
    /// The findings about the data: F1.
    Findings,
    /// The devices of a namespace, or of all: D1.
    Devices,
}

/// The parts of a path below a version, as Go's parser of requests names them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceTarget {
    pub kind: ResourceKind,
    /// The version requested.
    pub of: GroupVersion,
    /// For C3 it may be `*`: all namespaces.
    pub namespace: Option<String>,
    /// The kind of the objects of C1 and C2, `plural` or `plural.group`; the metric of E1.
    pub resource: String,
    /// The name of the object, in C1 and C2 `*` for all; the metric of C3; `None`: a list.
    pub name: Option<String>,
    /// The metric of C1 and C2.
    pub subresource: Option<String>,
}

impl ResourceTarget {
    /// The metric, in the request's spelling; `None`: the path names none.
    pub(super) fn metric(&self) -> Option<&str> {
        match self.kind {
            ResourceKind::CustomMetric => self.subresource.as_ref().or(self.name.as_ref()),
            ResourceKind::ExternalMetric => Some(&self.resource),
            _ => None,
        }
        .map(String::as_str)
    }

    /// The resource of the objects that a custom metric describes.
    pub(super) fn described(&self) -> &str {
        match self.subresource {
            Some(_) => &self.resource,
            None => "namespaces",
        }
    }

    /// The described objects of a custom metric. C3 describes the namespace itself, which is
    /// cluster-scoped.
    pub(super) fn objects(&self, selector: Selector) -> ObjectSelection {
        let (namespace, name) = match self.subresource {
            Some(_) => (self.namespace.clone(), &self.name),
            None => (None, &self.namespace),
        };
        ObjectSelection {
            resource: self.described().to_owned(),
            namespace,
            name: name.clone().filter(|name| name != "*"),
            selector,
        }
    }

    /// The verb of a GET; `watch` is whether the query requests a watch.
    pub(super) const fn verb(&self, watch: bool) -> &'static str {
        match self.name {
            Some(_) => "get",
            None if watch => "watch",
            None => "list",
        }
    }

    /// The access to review before the target is served (docs/protocol.md, "What a review
    /// asks").
    fn access(&self, watch: bool) -> Access {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        Access::Resource {
            verb: self.verb(watch).to_owned(),
            group: self.of.group.name().to_owned(),
            version: self.of.version.name().to_owned(),
            resource: self.resource.clone(),
            subresource: text(&self.subresource),
            namespace: text(&self.namespace),
            name: text(&self.name),
        }
    }
}

impl ApiTarget {
    /// The access to review; `None`: the path is reviewed as a non-resource.
    pub fn access(&self, watch: bool) -> Option<Access> {
        match self {
            Self::Resource(target) => Some(target.access(watch)),
            _ => None,
        }
    }
}

/// Parses a raw request path.
///
/// # Errors
/// When it is malformed (400) or has no target (404).
pub fn parse(raw: &str) -> Result<ApiTarget, Refusal> {
    if let Some(target) = outside_of_groups(raw) {
        return Ok(target);
    }
    let rest = raw.strip_prefix('/').ok_or(Refusal::NoSuchPath)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let segments: Option<Vec<Cow<'_, str>>> = rest.split('/').map(decode).collect();
    let segments = segments.ok_or_else(|| {
        Refusal::Malformed("a part of the path is malformed or cannot be a name".to_owned())
    })?;
    if segments
        .iter()
        .any(|segment| matches!(segment.as_ref(), "" | "." | ".."))
    {
        return Err(Refusal::NoSuchPath);
    }
    below_root(&segments).ok_or(Refusal::NoSuchPath)
}

/// The paths outside of the API groups. They are not decoded and match exactly, because
/// permissions are granted by path, and health is open to all clients.
fn outside_of_groups(raw: &str) -> Option<ApiTarget> {
    match raw {
        "/metrics" => return Some(ApiTarget::Metrics),
        "/openapi/v2" | "/openapi/v3" => return Some(ApiTarget::OpenApi(raw.to_owned())),
        _ => {}
    }
    if let Some(rest) = raw.strip_prefix("/openapi/v3/apis/") {
        let (group, version) = rest.split_once('/')?;
        MetricsGroup::named(group)?.version(version)?;
        return Some(ApiTarget::OpenApi(raw.to_owned()));
    }
    let mut probes = Probe::ALL.into_iter();
    let probe = probes.find(|known| raw.strip_prefix('/') == Some(known.name()));
    probe.map(ApiTarget::Health)
}

fn below_root(segments: &[Cow<'_, str>]) -> Option<ApiTarget> {
    let (first, rest) = segments.split_first()?;
    // An encoded spelling of `apis` does not match.
    if !matches!(first, Cow::Borrowed("apis")) {
        return None;
    }
    let Some((group, rest)) = rest.split_first() else {
        return Some(ApiTarget::Discovery("/apis".to_owned()));
    };
    let (version, rest) = rest.split_first()?;
    let of = MetricsGroup::named(group)?.version(version)?;
    match rest {
        [] => Some(ApiTarget::Discovery(format!("/apis/{of}"))),
        rest => resource(of, rest).map(ApiTarget::Resource),
    }
}

fn resource(of: GroupVersion, segments: &[Cow<'_, str>]) -> Option<ResourceTarget> {
    let (namespace, parts) = match segments {
        [word, namespace, parts @ ..] if word == "namespaces" => (Some(&**namespace), parts),
        parts => (None, parts),
    };
    let mut parts = parts.iter().map(|part| &**part);
    let (resource, name, subresource) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    let kind = kind_of(of.group, (namespace, resource, name, subresource))?;
    // `*` is reviewed as the namespace `*`, which no RoleBinding covers.
    let is_c3 = kind == ResourceKind::CustomMetric && subresource.is_none();
    if !namespace.is_none_or(|it| is_label(it) || (is_c3 && it == "*")) {
        return None;
    }
    Some(ResourceTarget {
        kind,
        of,
        namespace: namespace.map(str::to_owned),
        resource: resource.to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
    })
}

/// The namespace, the resource, the name and the subresource of a path.
type PathParts<'p> = (Option<&'p str>, &'p str, Option<&'p str>, Option<&'p str>);

fn kind_of(group: MetricsGroup, parts: PathParts<'_>) -> Option<ResourceKind> {
    let is_object = |resource: &str, name: &str| {
        !NOT_RESOURCES.contains(&resource) && is_resource(resource) && is_name(name)
    };
    Some(match (group, parts) {
        (MetricsGroup::Custom, (None, "findings", None, None)) => ResourceKind::Findings,
        (MetricsGroup::Custom, (_, "devices", None, None)) => ResourceKind::Devices,
        (MetricsGroup::Custom, (Some(_), "metrics", Some(metric), None)) if is_metric(metric) => {
            ResourceKind::CustomMetric
        }
        (MetricsGroup::Custom, (_, resource, Some(name), Some(metric)))
            if is_object(resource, name) && is_metric(metric) =>
        {
            ResourceKind::CustomMetric
        }
        (MetricsGroup::External, (Some(_), metric, None, None)) if is_metric(metric) => {
            ResourceKind::ExternalMetric
        }
        (MetricsGroup::Resource, (_, "pods", None, None)) => ResourceKind::Usage(Measured::Pods),
        // A single pod is requested only in its namespace.
        (MetricsGroup::Resource, (Some(_), "pods", Some(name), None)) if is_name(name) => {
            ResourceKind::Usage(Measured::Pods)
        }
        (MetricsGroup::Resource, (None, "nodes", name, None)) if name.is_none_or(is_name) => {
            ResourceKind::Usage(Measured::Nodes)
        }
        _ => return None,
    })
}

/// Whether a text is a DNS label, as a namespace and each part of `plural.group` is.
fn is_label(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_of_letters = !text.is_empty() && text.bytes().all(is_letter);
    is_of_letters && text.len() <= MAX_LABEL && !text.starts_with('-') && !text.ends_with('-')
}

fn is_resource(text: &str) -> bool {
    text.len() <= MAX_SEGMENT && text.split('.').all(is_label)
}

/// The names that client-go allows (apimachinery `pkg/api/validate/content/path.go`). `.`
/// and `..` are already refused.
fn is_path_segment(text: &str) -> bool {
    !text.contains(['/', '%'])
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_SEGMENT && is_path_segment(text)
}

fn is_metric(text: &str) -> bool {
    text.len() <= MAX_METRIC && is_path_segment(text)
}

/// Percent-decodes a segment exactly once. `None`: it is malformed, or has a letter that no
/// name has.
fn decode(raw: &str) -> Option<Cow<'_, str>> {
    let is_digits = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let decoded = percent_decode_str(raw).decode_utf8().ok()?;
    let is_refused = |letter: char| letter.is_control() || matches!(letter, '/' | '\\');
    let is_whole = raw.split('%').skip(1).all(is_digits);
    (is_whole && !decoded.contains(is_refused)).then_some(decoded)
}
