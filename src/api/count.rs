//! The layer that counts requests and measures their duration. Labels come from closed
//! sets, never from a client's text.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;

use aggregated_apiserver::api::context::RequestContext;

use crate::telemetry::metrics::Class;

use super::answers::Api;
use super::group::MetricsGroup;
use super::path::{ApiTarget, DEVICES, FINDINGS, ObjectTarget};
use super::request::ParsedRequest;

/// Counts the request under its target, whatever the answer.
pub(super) async fn count(
    State(api): State<Api>,
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
    next: Next,
) -> Response {
    let under_way = api.telemetry().metrics.requests().begin();
    let response = next.run(request).await;
    let code = response.status().as_u16();
    under_way.answered(
        &class(&api, &context.method, &parsed),
        code,
        context.began.elapsed(),
    );
    response
}

fn class(api: &Api, method: &Method, parsed: &ParsedRequest) -> Class {
    let watches = || parsed.watches();
    let word = match &parsed.target {
        Err(_) => "other",
        Ok(ApiTarget::Health(_) | ApiTarget::HealthCheck(..)) => "health",
        Ok(ApiTarget::Metrics) => "metrics",
        Ok(ApiTarget::Version) => "version",
        Ok(ApiTarget::OpenApiV2 | ApiTarget::OpenApiV3 | ApiTarget::OpenApiV3Of(_)) => "openapi",
        Ok(ApiTarget::Groups | ApiTarget::Group(_) | ApiTarget::GroupVersion(_)) => "discovery",
        Ok(ApiTarget::Custom(target)) => {
            let name = match &target.object {
                ObjectTarget::OwnNamespace => "namespaces",
                ObjectTarget::All { resource } | ObjectTarget::Named { resource, .. } => resource,
            };
            let known = api.documents().resource(name).cloned();
            return Class {
                verb: verb(method, "get"),
                group: MetricsGroup::Custom.name(),
                resource: known.unwrap_or_else(|| "other".into()),
            };
        }
        Ok(ApiTarget::External { .. }) => {
            return Class {
                verb: verb(method, if watches() { "watch" } else { "list" }),
                group: MetricsGroup::External.name(),
                resource: "external".into(),
            };
        }
        Ok(ApiTarget::Findings(of) | ApiTarget::Devices(of, _)) => {
            let is_findings = matches!(parsed.target, Ok(ApiTarget::Findings(_)));
            return Class {
                verb: verb(method, if watches() { "watch" } else { "list" }),
                group: of.group.name(),
                resource: if is_findings { FINDINGS } else { DEVICES }.into(),
            };
        }
        Ok(ApiTarget::Usage(target)) => {
            let get = match (&target.name, watches()) {
                (Some(_), _) => "get",
                (None, true) => "watch",
                (None, false) => "list",
            };
            return Class {
                verb: verb(method, get),
                group: MetricsGroup::Resource.name(),
                resource: target.measured.resource().into(),
            };
        }
    };
    Class {
        verb: verb(method, "get"),
        group: "",
        resource: word.into(),
    }
}

/// `get` is the verb of a GET here.
fn verb(method: &Method, get: &'static str) -> &'static str {
    match *method {
        Method::GET => get,
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}
