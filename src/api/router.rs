//! Routes requests: the handler of each path, and the layers around all of them.
//!
//! axum selects a handler by the path's prefix. [`super::path`], the only parser of API
//! paths, has read the exact target before, into the request's context: handlers serve
//! that target, which was authorized, and no other.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::any;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::StatusCode;
use http_body_util::{BodyExt as _, Collected, Full};
use tower::ServiceBuilder;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use super::answers::Api;
use super::{count, handlers, layers, response};
use crate::telemetry::health::Probe;
use aggregated_apiserver::security::Security;

/// The API without layers.
pub fn routes(api: &Api) -> Router {
    let router = Router::new()
        .route("/version", any(handlers::api))
        .route("/openapi/{*document}", any(handlers::api))
        .route("/apis", any(handlers::api))
        .route("/apis/", any(handlers::api))
        .route("/apis/{*path}", any(handlers::api))
        .fallback(handlers::nothing);
    router.merge(health_and_metrics()).with_state(api.clone())
}

/// The operators' paths, on the API's port and on their own.
fn health_and_metrics() -> Router<Api> {
    let router = Router::new().route("/metrics", any(handlers::metrics));
    Probe::ALL.into_iter().fold(router, |router, probe| {
        let path = format!("/{}", probe.name());
        router
            .route(&path, any(handlers::probe))
            .route(&format!("{path}/{{check}}"), any(handlers::probe))
    })
}

/// The API without authorization: for the demo, which has no cluster.
pub fn open(api: &Api) -> Router {
    routes(api).layer(
        ServiceBuilder::new()
            .layer(from_fn(layers::context))
            .layer(from_fn_with_state(api.clone(), count::count))
            .layer(from_fn_with_state(api.clone(), layers::catch_panic))
            .layer(from_fn(layers::only_get)),
    )
}

/// Only health and metrics, for a port that only operators reach. Their requests are not
/// counted: counters are for the API.
pub fn operators(api: &Api) -> Router {
    let routes = health_and_metrics()
        .fallback(handlers::nothing_for_operators)
        .with_state(api.clone());
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn(layers::context))
            .layer(from_fn_with_state(api.clone(), layers::catch_panic))
            .layer(from_fn(layers::only_get)),
    )
}

/// The API for authorized requests: the layers from the outermost to the innermost. The
/// order is that of kube-apiserver's library (kubernetes/apiserver
/// `pkg/server/config.go`): the audit sees every refusal, also of what is cut
/// off or panics; the user is known before the requests of that user are
/// counted. Before them the listener has limited connections and bodies.
pub fn secured(routes: Router, api: &Api, security: Arc<Security>) -> Router {
    let both = (api.clone(), Arc::clone(&security));
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn(layers::context))
            .layer(from_fn_with_state(api.clone(), count::count))
            .layer(from_fn_with_state(security, layers::audit))
            .layer(from_fn_with_state(api.clone(), layers::catch_panic))
            .layer(from_fn_with_state(both.clone(), layers::time_limit))
            .layer(from_fn_with_state(both.clone(), layers::header_limit))
            .layer(from_fn_with_state(both.clone(), layers::authenticate))
            .layer(from_fn_with_state(both.clone(), layers::in_flight))
            .layer(from_fn_with_state(both, layers::authorize))
            .layer(from_fn(layers::only_get)),
    )
}

/// The router for a listener, which passes requests without bodies and needs whole
/// answers: it keeps an answer's extensions until the answer is written.
pub fn into_service(
    router: Router,
) -> BoxCloneSyncService<http::Request<()>, http::Response<Full<Bytes>>, Infallible> {
    BoxCloneSyncService::new(tower::service_fn(move |request: http::Request<()>| {
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(|()| Body::empty()));
            // The layers that read and count a request are outside of the one that
            // catches panics; a panic there must not end the connection either.
            let Ok(response) = AssertUnwindSafe(response).catch_unwind().await else {
                tracing::error!("a request made the server panic");
                return Ok(response::refusal(StatusCode::INTERNAL_SERVER_ERROR));
            };
            let (parts, body) = response?.into_parts();
            let body = body.collect().await.map(Collected::to_bytes);
            let body = Full::new(body.unwrap_or_default());
            Ok(http::Response::from_parts(parts, body))
        }
    }))
}
