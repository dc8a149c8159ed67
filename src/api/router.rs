//! The layers around the handlers.
//!
//! [`super::path`], the only parser of paths, has parsed the target for the request's
//! context. Handlers serve this authorized target and no other.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::StatusCode;
use tower::ServiceBuilder;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::layers::catch_panic;
use aggregated_apiserver::security::Security;

use super::answers::Api;
use super::path::ApiTarget;
use super::request::ParsedRequest;
use super::{count, layers};

/// The API without layers.
pub(crate) fn routes(api: &Api) -> Router {
    Router::new().fallback(serve).with_state(api.clone())
}

/// The API without authorization, for the demo, which has no cluster. Every client may list
/// all pods.
pub(crate) fn open(api: &Api) -> Router {
    let routes = routes(api).layer(from_fn(layers::all_pods));
    known(unguarded(routes, api), api)
}

/// Only health and metrics, for a port that only operators reach. These requests are not
/// counted, because the counters are for the API.
pub(crate) fn operators(api: &Api) -> Router {
    let routes = Router::new()
        .fallback(serve_operators)
        .with_state(api.clone());
    unguarded(routes, api).layer(from_fn_with_state(api.clone(), layers::context))
}

/// The API for authorized requests.
pub(crate) fn secured(routes: Router, api: &Api, security: &Arc<Security>) -> Router {
    let inner = routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(
                Arc::clone(security),
                layers::explanations,
            ))
            .layer(from_fn(layers::only_get)),
    );
    known(
        aggregated_apiserver::api::layers::secured(inner, security),
        api,
    )
}

/// Adds the layers that parse and count requests.
fn known(routes: Router, api: &Api) -> Router {
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(api.clone(), layers::context))
            .layer(from_fn_with_state(api.clone(), count::count)),
    )
}

/// Adds the layers for requests that are not authorized.
fn unguarded(routes: Router, api: &Api) -> Router {
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(Arc::clone(api.counters()), catch_panic))
            .layer(from_fn(layers::only_get)),
    )
}

/// Serves every target of the API.
async fn serve(
    State(api): State<Api>,
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
) -> Response {
    // The body is not read; without it the future can be sent.
    let (parts, _) = request.into_parts();
    let answer = api.answer(&context, &parsed, &parts.headers).await;
    answer.into_response()
}

/// Serves health and metrics, on the operators' port.
async fn serve_operators(
    api: State<Api>,
    context: Extension<Arc<RequestContext>>,
    parsed: Extension<Arc<ParsedRequest>>,
    request: Request,
) -> Response {
    match &parsed.target {
        Ok(ApiTarget::Health(_) | ApiTarget::HealthCheck(..) | ApiTarget::Metrics) => {
            serve(api, context, parsed, request).await
        }
        _ => {
            let paths = "not found: use /metrics, /livez, /readyz and /healthz\n";
            (StatusCode::NOT_FOUND, paths).into_response()
        }
    }
}
