//! A parsed request: its path and its query.

use http::request::Parts;
use http::{HeaderMap, Method, Uri};

use aggregated_apiserver::api::context::{RequestContext, verb_of};
use aggregated_apiserver::api::negotiate::{self, Encoding};
use aggregated_apiserver::refusal::Refusal;
use aggregated_apiserver::security::reviewer::Access;

use super::params::Params;
use super::path::{self, ApiTarget, ResourceKind};

/// A source of fetched values. Each has its own permits, so that requests that wait for the
/// query of a rule do not delay resource metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// The queries of rules.
    Rules,
    /// The usage of pods and nodes (`metrics.k8s.io`).
    Usage,
}

impl Backend {
    pub(crate) const COUNT: usize = 2;
}

/// A request's path and query. Authorization and serving both use `target`, so they cannot
/// interpret it differently.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub(super) target: Result<ApiTarget, Refusal>,
    pub(super) params: Result<Params, String>,
}

impl ParsedRequest {
    pub(super) fn of(uri: &Uri) -> Self {
        Self {
            target: path::parse(uri.path()),
            params: Params::parse(uri.query()),
        }
    }

    /// The context of the request for the layers. `backend` returns the backend of a target.
    pub(super) fn context(
        &self,
        request: &Parts,
        backend: impl FnOnce(&ApiTarget) -> Option<Backend>,
    ) -> RequestContext {
        let target = self.target.as_ref().ok();
        let backend = target.and_then(backend).map(|backend| backend as usize);
        RequestContext::new(request, self.access(&request.method, &request.uri), backend)
    }

    /// The access to authorize. A path without a target is authorized as a non-resource
    /// path, at which nothing is served.
    fn access(&self, method: &Method, uri: &Uri) -> Access {
        // An invalid query is refused later, before anything is served.
        let mut access = (self.target.as_ref().ok())
            .and_then(|target| target.access(self.watches()))
            .unwrap_or_else(|| Access::NonResource {
                verb: method.as_str().to_ascii_lowercase(),
                path: uri.path().to_owned(),
            });
        // No other verb is served.
        if let Access::Resource { verb, name, .. } = &mut access {
            *verb = verb_of(method, verb, name).to_owned();
        }
        access
    }

    pub(super) fn watches(&self) -> bool {
        self.params.as_ref().is_ok_and(|params| params.watch)
    }

    /// What the target is for, below a version of a group.
    fn kind(&self) -> Option<ResourceKind> {
        match &self.target {
            Ok(ApiTarget::Resource(target)) => Some(target.kind),
            _ => None,
        }
    }

    /// The API group and the resource of a request, for metrics. The group is empty for other
    /// paths; the resource is then what the path is for.
    pub(super) fn subject(&self) -> [&'static str; 2] {
        let target = match &self.target {
            Ok(ApiTarget::Resource(target)) => target,
            Ok(ApiTarget::Health(_)) => return ["", "health"],
            Ok(ApiTarget::Metrics) => return ["", "metrics"],
            Ok(ApiTarget::OpenApi(_)) => return ["", "openapi"],
            Ok(ApiTarget::Discovery(_)) => return ["", "discovery"],
            Err(_) => return ["", "other"],
        };
        let resource = match target.kind {
            ResourceKind::CustomMetric => "custom",
            ResourceKind::ExternalMetric => "external",
            ResourceKind::Usage(measured) => measured.resource(),
            ResourceKind::Findings => "findings",
            ResourceKind::Devices => "devices",
        };
        [target.of.group.name(), resource]
    }

    /// Whether the response may name pods of other namespaces than the reviewed one.
    pub(super) fn names_holders(&self) -> bool {
        match self.kind() {
            Some(ResourceKind::Devices) => true,
            Some(ResourceKind::CustomMetric | ResourceKind::ExternalMetric) => {
                self.params.as_ref().is_ok_and(|params| params.explain)
            }
            _ => false,
        }
    }

    /// The encoding of the response: explanations, devices and findings are always JSON.
    pub(super) fn encoding(&self, headers: &HeaderMap) -> Result<Encoding, Refusal> {
        match self.names_holders() || self.kind() == Some(ResourceKind::Findings) {
            true => Ok(Encoding::Json),
            false => negotiate::encoding(headers),
        }
    }
}
