//! The handlers that [`super::router`] routes to. Each serves the target of the request's
//! context, which was authorized.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::Full;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::response;
use aggregated_apiserver::api::status::RequestFailure;

use crate::telemetry::endpoints;

use super::answers::Api;
use super::path::ApiTarget;
use super::request::ParsedRequest;

type Context = Extension<Arc<RequestContext>>;
type Parsed = Extension<Arc<ParsedRequest>>;

/// Values, discovery, OpenAPI and the version.
pub(super) async fn api(
    State(api): State<Api>,
    Extension(context): Context,
    Extension(parsed): Parsed,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let answer = api.answer(&context, &parsed, &parts.headers).await;
    answer.into_response()
}

/// `/livez`, `/readyz` and `/healthz`, or one of their checks.
pub(super) async fn probe(
    State(api): State<Api>,
    Extension(context): Context,
    Extension(parsed): Parsed,
) -> Response {
    let health = &api.telemetry().health;
    let answer = match &parsed.target {
        Ok(ApiTarget::Health(probe)) => Some(endpoints::probe(health, *probe, context.uri.query())),
        Ok(ApiTarget::HealthCheck(probe, name)) => endpoints::check(health, *probe, name),
        _ => None,
    };
    or_nothing(answer, &context, &parsed)
}

/// `/metrics`.
pub(super) async fn metrics(
    State(api): State<Api>,
    Extension(context): Context,
    Extension(parsed): Parsed,
    request: Request,
) -> Response {
    let is_it = matches!(parsed.target, Ok(ApiTarget::Metrics));
    let metrics = &api.telemetry().metrics;
    let answer = is_it.then(|| endpoints::metrics(metrics, request.headers()));
    or_nothing(answer, &context, &parsed)
}

/// 404 for other paths.
pub(super) async fn nothing(Extension(context): Context, Extension(parsed): Parsed) -> Response {
    or_nothing(None, &context, &parsed)
}

/// The same on the operators' port.
pub(super) async fn nothing_for_operators() -> Response {
    let paths = "not found: use /metrics, /livez, /readyz and /healthz\n";
    (StatusCode::NOT_FOUND, paths).into_response()
}

fn or_nothing(
    answer: Option<http::Response<Full<Bytes>>>,
    context: &RequestContext,
    parsed: &ParsedRequest,
) -> Response {
    let answer = answer.unwrap_or_else(|| {
        let failure = match &parsed.target {
            Err(error) => (*error).into(),
            Ok(_) => RequestFailure::NoSuchPath,
        };
        response::failure(failure, context.manner)
    });
    answer.into_response()
}
