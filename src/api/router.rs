//! The layers around the handlers.
//!
//! [`super::path`], the only parser of paths, has read the target into the request's
//! context: handlers serve that target, which was authorized, and no other.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tower::ServiceBuilder;

use aggregated_apiserver::api::layers::catch_panic;
use aggregated_apiserver::security::Security;

use super::answers::Api;
use super::{count, handlers, layers};

/// The API without layers.
pub(crate) fn routes(api: &Api) -> Router {
    Router::new()
        .fallback(handlers::api)
        .with_state(api.clone())
}

/// The API without authorization: for the demo, which has no cluster.
pub(crate) fn open(api: &Api) -> Router {
    known(unguarded(routes(api), api), api)
}

/// Only health and metrics, for a port that only operators reach. Their requests are not
/// counted: counters are for the API.
pub(crate) fn operators(api: &Api) -> Router {
    let routes = Router::new()
        .fallback(handlers::operators)
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

/// Routes whose requests have a context and are counted.
fn known(routes: Router, api: &Api) -> Router {
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(api.clone(), layers::context))
            .layer(from_fn_with_state(api.clone(), count::count)),
    )
}

/// Routes whose requests are not authorized.
fn unguarded(routes: Router, api: &Api) -> Router {
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(Arc::clone(api.counters()), catch_panic))
            .layer(from_fn(layers::only_get)),
    )
}
