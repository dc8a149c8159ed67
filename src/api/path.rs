//! The single parser of request paths (docs/protocol.md, "Paths", "Reading a path").
//!
//! Authorization and dispatch must never interpret a path differently. Both therefore use
//! the [`ApiTarget`] made here, and no other code parses the path. Segments are split at
//! the raw `/`, and each segment is decoded once.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::provider::usage::Measured;
use crate::telemetry::health::Probe;
use aggregated_apiserver::security::reviewer::Access;

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

/// The resource of the findings about the data, which discovery does not list.
pub(crate) const FINDINGS: &str = "findings";

/// The resource of devices, which discovery does not list.
pub(crate) const DEVICES: &str = "devices";

/// The target of a path. C1 to C3, E1, M1 to M3, F1 and D1 are the names of
/// docs/protocol.md, "Paths".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ApiTarget {
    /// `/livez`, `/readyz`, `/healthz`: open to all clients.
    Health(Probe),
    /// `/readyz/NAME` and the like: one check, with its reason.
    HealthCheck(Probe, String),
    Metrics,
    /// `/openapi/v2`, `/openapi/v3`, `/openapi/v3/apis/<group>/<version>`: the path.
    OpenApi(String),
    /// `/apis`, `/apis/<group>/<version>`: the path without a slash at its end.
    Discovery(String),
    /// A custom metric: C1, C2 or C3.
    Custom(CustomTarget),
    /// An external metric: E1.
    External {
        /// The version requested.
        of: GroupVersion,
        namespace: String,
        /// The metric, in the request's spelling.
        metric: String,
    },
    /// The usage of pods or nodes: M1 to M3.
    Usage(UsageTarget),
    /// The findings about the data: F1.
    Findings(GroupVersion),
    /// The devices of a namespace, or of all: D1.
    Devices(GroupVersion, Option<String>),
}

/// The parts of the path of a resource metric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UsageTarget {
    /// The version requested.
    pub of: GroupVersion,
    /// Pods or nodes.
    pub measured: Measured,
    /// The namespace of M2 and M3.
    pub namespace: Option<String>,
    /// A pod's or node's name; `None`: a list.
    pub name: Option<String>,
}

/// The parts of a custom metric's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomTarget {
    /// The version requested.
    pub of: GroupVersion,
    /// The namespace of C2 and C3. For C3 it may be `*`: all namespaces.
    pub namespace: Option<String>,
    /// The resource of C1 and C2, `plural` or `plural.group`; `None`: C3, which describes
    /// the namespace itself.
    pub resource: Option<String>,
    /// The object's name in C1 and C2; `None`: all objects.
    pub name: Option<String>,
    pub metric: String,
}

impl CustomTarget {
    /// The resource of the described objects.
    pub(super) fn resource(&self) -> &str {
        self.resource.as_deref().unwrap_or("namespaces")
    }
}

impl ApiTarget {
    /// Whether the target is a custom or an external metric.
    pub(crate) const fn has_values(&self) -> bool {
        matches!(self, Self::Custom(_) | Self::External { .. })
    }

    /// The access to review before the target is served (docs/protocol.md, "What a review
    /// asks"). `None`: the path is reviewed as a non-resource. `watch` is whether the query
    /// requests a watch, which only changes the verb of lists.
    pub(crate) fn access(&self, watch: bool) -> Option<Access> {
        let list = if watch { "watch" } else { "list" };
        let (of, verb, pieces) = match self {
            Self::Custom(target) => {
                let metric = target.metric.as_str();
                let (resource, subresource, name) = match &target.resource {
                    None => ("metrics", "", metric),
                    Some(resource) => (&**resource, metric, target.name.as_deref().unwrap_or("*")),
                };
                let namespace = target.namespace.as_deref().unwrap_or_default();
                (target.of, "get", [namespace, resource, subresource, name])
            }
            Self::External {
                of,
                namespace,
                metric,
            } => (*of, list, [namespace.as_str(), metric.as_str(), "", ""]),
            Self::Findings(of) => (*of, list, ["", FINDINGS, "", ""]),
            Self::Devices(of, namespace) => {
                let namespace = namespace.as_deref().unwrap_or_default();
                (*of, list, [namespace, DEVICES, "", ""])
            }
            Self::Usage(target) => {
                let verb = target.name.as_ref().map_or(list, |_| "get");
                let resource = target.measured.resource();
                let namespace = target.namespace.as_deref().unwrap_or_default();
                let name = target.name.as_deref().unwrap_or_default();
                (target.of, verb, [namespace, resource, "", name])
            }
            _ => return None,
        };
        let [namespace, resource, subresource, name] = pieces.map(str::to_owned);
        Some(Access::Resource {
            verb: verb.to_owned(),
            group: of.group.name().to_owned(),
            version: of.version.name().to_owned(),
            resource,
            subresource,
            namespace,
            name,
        })
    }
}

/// Why a path has no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The path is malformed; the fault.
    Malformed(&'static str),
    /// The path has no resource.
    NotFound,
}

/// Parses a raw request path.
///
/// # Errors
/// When it is malformed (400) or has no target (404).
pub(crate) fn parse(raw: &str) -> Result<ApiTarget, PathError> {
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
    let rest = raw.strip_prefix('/')?;
    let (probe, name) = rest.split_once('/').unwrap_or((rest, ""));
    let probe = Probe::ALL.into_iter().find(|known| known.name() == probe)?;
    let is_check = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match name {
        "" if rest == probe.name() => Some(ApiTarget::Health(probe)),
        "" => None,
        name => name
            .bytes()
            .all(is_check)
            .then(|| ApiTarget::HealthCheck(probe, name.to_owned())),
    }
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
    let group = MetricsGroup::named(group)?;
    let (version, rest) = rest.split_first()?;
    let of = group.version(version)?;
    match (group, rest) {
        (_, []) => Some(ApiTarget::Discovery(format!("/apis/{of}"))),
        (MetricsGroup::Custom | MetricsGroup::External, [word]) if word == FINDINGS => {
            Some(ApiTarget::Findings(of))
        }
        (MetricsGroup::Custom, [word]) if word == DEVICES => Some(ApiTarget::Devices(of, None)),
        (MetricsGroup::Custom, [word, namespace, devices])
            if word == "namespaces" && devices == DEVICES =>
        {
            let namespace = is_namespace(namespace).then(|| namespace.to_string())?;
            Some(ApiTarget::Devices(of, Some(namespace)))
        }
        (MetricsGroup::Custom, rest) => custom(of, rest).map(ApiTarget::Custom),
        (MetricsGroup::External, [word, namespace, metric]) if word == "namespaces" => {
            Some(ApiTarget::External {
                of,
                namespace: is_namespace(namespace).then(|| namespace.to_string())?,
                metric: is_metric(metric).then(|| metric.to_string())?,
            })
        }
        (MetricsGroup::External, _) => None,
        (MetricsGroup::Resource, rest) => usage(of, rest).map(ApiTarget::Usage),
    }
}

fn usage(of: GroupVersion, segments: &[Cow<'_, str>]) -> Option<UsageTarget> {
    let (namespace, resource, name) = match segments {
        [resource] => (None, resource, None),
        [word, namespace, resource] if word == "namespaces" => (Some(namespace), resource, None),
        [word, namespace, resource, name] if word == "namespaces" => {
            (Some(namespace), resource, Some(name))
        }
        // A single pod is requested only in its namespace.
        [resource, name] if resource == "nodes" => (None, resource, Some(name)),
        _ => return None,
    };
    let measured = match resource.as_ref() {
        "pods" => Measured::Pods,
        "nodes" if namespace.is_none() => Measured::Nodes,
        _ => return None,
    };
    if namespace.is_some_and(|namespace| !is_namespace(namespace))
        || name.is_some_and(|name| !is_name(name))
    {
        return None;
    }
    Some(UsageTarget {
        of,
        measured,
        namespace: namespace.map(ToString::to_string),
        name: name.map(ToString::to_string),
    })
}

fn custom(of: GroupVersion, segments: &[Cow<'_, str>]) -> Option<CustomTarget> {
    let (namespace, object, metric) = match segments {
        [word, namespace, metrics, metric] if word == "namespaces" && metrics == "metrics" => {
            (Some(namespace), None, metric)
        }
        [word, namespace, resource, name, metric] if word == "namespaces" => {
            (Some(namespace), Some((resource, name)), metric)
        }
        [resource, name, metric] if resource != "namespaces" => {
            (None, Some((resource, name)), metric)
        }
        _ => return None,
    };
    // `*` is reviewed as the namespace `*`, which no RoleBinding covers.
    let may_be =
        |namespace: &str| is_namespace(namespace) || (namespace == "*" && object.is_none());
    let is_object = |resource: &str, name: &str| {
        !NOT_RESOURCES.contains(&resource) && is_resource(resource) && is_name(name)
    };
    if !namespace.is_none_or(|namespace| may_be(namespace))
        || !object.is_none_or(|(resource, name)| is_object(resource, name))
        || !is_metric(metric)
    {
        return None;
    }
    let named = object.filter(|(_, name)| *name != "*");
    Some(CustomTarget {
        of,
        namespace: namespace.map(ToString::to_string),
        resource: object.map(|(resource, _)| resource.to_string()),
        name: named.map(|(_, name)| name.to_string()),
        metric: metric.to_string(),
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

/// Percent-decodes a segment exactly once.
fn decode(raw: &str) -> Result<Cow<'_, str>, PathError> {
    let decoded = if raw.contains('%') {
        let bytes = percent_decode(raw).ok_or(PathError::Malformed(
            "the path contains a broken percent-encoding",
        ))?;
        if bytes.contains(&b'/') {
            return Err(PathError::Malformed("the path contains an encoded slash"));
        }
        let text =
            String::from_utf8(bytes).map_err(|_| PathError::Malformed("the path is not UTF-8"))?;
        Cow::Owned(text)
    } else {
        Cow::Borrowed(raw)
    };
    if decoded.chars().any(char::is_control) {
        return Err(PathError::Malformed(
            "the path contains a control character",
        ));
    }
    if decoded.contains('\\') {
        return Err(PathError::Malformed("the path contains a backslash"));
    }
    Ok(decoded)
}

/// Decodes `%XX` once. `None`: a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decode(raw: &str) -> Option<Vec<u8>> {
    let is_digits = |after: &[u8]| {
        let digits = after.get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let mut after_percents = raw.as_bytes().split(|byte| *byte == b'%').skip(1);
    after_percents
        .all(is_digits)
        .then(|| percent_decode_str(raw).collect())
}
