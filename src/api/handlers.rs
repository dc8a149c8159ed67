//! The handlers behind the layers of [`super::router`]. Each serves the authorized target
//! of the request's context.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::Full;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::response;
use aggregated_apiserver::refusal::Refusal;

use crate::telemetry::endpoints;

use super::answers::Api;
use super::path::ApiTarget;
use super::request::ParsedRequest;

type Context = Extension<Arc<RequestContext>>;
type Parsed = Extension<Arc<ParsedRequest>>;

/// Serves every target of the API.
pub(super) async fn api(
    State(api): State<Api>,
    Extension(context): Context,
    Extension(parsed): Parsed,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(answer) = of_operators(&api, &context, &parsed, &parts.headers) {
        return answer.into_response();
    }
    let answer = api.answer(&context, &parsed, &parts.headers).await;
    answer.into_response()
}

/// Serves health and metrics, on the operators' port.
pub(super) async fn operators(
    State(api): State<Api>,
    Extension(context): Context,
    Extension(parsed): Parsed,
    request: Request,
) -> Response {
    if let Some(answer) = of_operators(&api, &context, &parsed, request.headers()) {
        return answer.into_response();
    }
    let paths = "not found: use /metrics, /livez, /readyz and /healthz\n";
    (StatusCode::NOT_FOUND, paths).into_response()
}

/// The response to `/metrics`, `/livez`, `/readyz`, `/healthz` or one of their checks.
/// `None`: another target.
fn of_operators(
    api: &Api,
    context: &RequestContext,
    parsed: &ParsedRequest,
    headers: &HeaderMap,
) -> Option<http::Response<Full<Bytes>>> {
    let health = &api.telemetry().health;
    match parsed.target.as_ref().ok()? {
        ApiTarget::Health(probe) => Some(endpoints::probe(health, *probe, context.uri.query())),
        ApiTarget::HealthCheck(probe, name) => {
            let refused = || response::refused(&Refusal::NoSuchPath, context.encoding);
            Some(endpoints::check(health, *probe, name).unwrap_or_else(refused))
        }
        ApiTarget::Metrics => Some(endpoints::metrics(&api.telemetry().metrics, headers)),
        _ => None,
    }
}
