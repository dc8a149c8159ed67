//! The layers around a server's handlers, one function each. [`crate::security`] decides
//! which requests pass.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use futures_util::FutureExt as _;
use tower::ServiceBuilder;

use super::context::RequestContext;
use super::response;
use super::status::RequestFailure;
use crate::security::Security;
use crate::security::audit::RequestOutcome;
use crate::security::counters::Counters;
use crate::security::denied::Denied;

/// The request's context, which an outer layer of the server inserts.
type Context = Extension<Arc<RequestContext>>;

/// Lets authorized requests through to `routes`. The layers from the outermost to the
/// innermost have the order of kube-apiserver's library (kubernetes/apiserver
/// `pkg/server/config.go`): the audit sees every refusal, also of what is cut off or
/// panics; the user is known before the requests of that user are counted. Before them
/// the listener has limited connections and bodies.
///
/// A layer around this one inserts an `Arc<RequestContext>` as an extension.
pub fn secured(routes: Router, security: &Arc<Security>) -> Router {
    let state = || Arc::clone(security);
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(state(), audit))
            .layer(from_fn_with_state(
                Arc::clone(&security.counters),
                catch_panic,
            ))
            .layer(from_fn_with_state(state(), time_limit))
            .layer(from_fn_with_state(state(), header_limit))
            .layer(from_fn_with_state(state(), authenticate))
            .layer(from_fn_with_state(state(), in_flight))
            .layer(from_fn_with_state(state(), authorize)),
    )
}

/// Logs each request that was refused or failed.
async fn audit(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let user = context.user.get().map(|user| user.identity.user.as_str());
    security.audit.write(&RequestOutcome {
        code: response.status(),
        denied: response.extensions().get(),
        told: response.extensions().get(),
        access: &context.access,
        user,
        method: context.method.as_str(),
        path: context.uri.path(),
        audit_id: context.audit_id.as_ref().and_then(|id| id.to_str().ok()),
        address: context.address(),
    });
    response
}

/// Confines a panic to its request: a connection carries every user of an aggregator.
pub async fn catch_panic(
    State(counters): State<Arc<Counters>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request made the server panic");
            refuse(&counters, &context, Denied::Panicked)
        }
    }
}

/// Ends requests that exceed the time limit.
async fn time_limit(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let limit = security.settings.time_limit(&context.access);
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => refuse(&security.counters, &context, Denied::TimedOut),
    }
}

/// Refuses requests with too many or too long header lines.
async fn header_limit(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    if security.settings.head_fits(request.headers()) {
        next.run(request).await
    } else {
        refuse(&security.counters, &context, Denied::HeadersTooLarge)
    }
}

/// Authenticates the request and removes its identity headers.
async fn authenticate(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    mut request: Request,
    next: Next,
) -> Response {
    let until = security
        .settings
        .review_until(&context.access, context.began);
    let version = request.version();
    let peer = context.peer.as_ref();
    let found = security
        .authenticate
        .user(peer, version, request.headers_mut(), until);
    let found = found.await;
    match found.user {
        Ok(user) => {
            let _ = context.user.set(user);
            if found.impersonates {
                refuse(&security.counters, &context, Denied::Impersonation)
            } else {
                next.run(request).await
            }
        }
        Err(denied) => refuse(&security.counters, &context, denied),
    }
}

/// Refuses requests when too many are in flight. The answer holds the permit until it has
/// been written.
async fn in_flight(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let user = context.user.get();
    let permit = security
        .in_flight
        .permit(user, &context.access, context.backend);
    let permit = match permit {
        Ok(permit) => permit,
        Err(denied) => return refuse(&security.counters, &context, denied),
    };
    let mut response = next.run(request).await;
    response.extensions_mut().insert(permit);
    response
}

/// Lets authorized requests through.
async fn authorize(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let until = security
        .settings
        .review_until(&context.access, context.began);
    let user = context.user.get();
    match security.authorize.check(user, &context.access, until).await {
        Ok(()) => next.run(request).await,
        Err(denied) => refuse(&security.counters, &context, denied),
    }
}

/// The answer to a refused request, counted, and marked for the audit.
fn refuse(counters: &Counters, context: &RequestContext, denied: Denied) -> Response {
    counters.refused(denied.kind());
    let failure = RequestFailure::Denied(Box::new(denied.clone()));
    let mut response = response::failure(failure, context.manner).into_response();
    response.extensions_mut().insert(denied);
    response
}
