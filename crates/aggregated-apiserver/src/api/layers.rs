//! The layers around a server's handlers. [`crate::security`] decides which requests pass.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use futures_util::FutureExt as _;
use tower::ServiceBuilder;

use super::audit::Audit;
use super::context::RequestContext;
use super::response;
use crate::refusal::Refusal;
use crate::security::Security;
use crate::security::authenticate::impersonates;

/// The request's context, which an outer layer of the server inserts.
type Context = Extension<Arc<RequestContext>>;

/// Passes authorized requests on to `routes`. The order of the layers, and of the steps of
/// the innermost, is that of kube-apiserver's library (kubernetes/apiserver
/// `pkg/server/config.go`). The audit sees every refusal, including timeouts and panics.
/// Authentication comes before the limit of requests in flight, which depends on the user.
/// The listener has limited connections and bodies before.
///
/// A layer around this one inserts an `Arc<RequestContext>` as an extension.
pub fn secured(routes: Router, security: &Arc<Security>) -> Router {
    let logged = Arc::new(Audit::default());
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(logged, audit))
            .layer(from_fn(catch_panic))
            .layer(from_fn_with_state(Arc::clone(security), admit)),
    )
}

async fn audit(
    State(audit): State<Arc<Audit>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    audit.write(&context, &response);
    response
}

/// Limits a panic to its request, because a connection may carry the requests of all users
/// of an aggregator.
pub async fn catch_panic(Extension(context): Context, request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request made the server panic");
            refuse(&context, &Refusal::Panicked)
        }
    }
}

async fn admit(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let limit = security.settings.time_limit(&context.access);
    let answered = tokio::time::timeout(limit, answer(&security, &context, request, next));
    match answered.await.unwrap_or(Err(Refusal::TimedOut)) {
        Ok(response) => response,
        Err(refusal) => refuse(&context, &refusal),
    }
}

/// Answers a request. Checks, in this order: authentication, the limit of requests in flight,
/// authorization. The handlers see no identity headers.
async fn answer(
    security: &Security,
    context: &RequestContext,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let (peer, version) = (context.peer.as_ref(), request.version());
    let until = security
        .settings
        .review_until(&context.access, context.began);
    let authenticated = security
        .authenticate(peer, version, request.headers_mut(), until)
        .await?;
    let user = context.user.get_or_init(|| authenticated);
    if impersonates(request.headers()) {
        return Err(Refusal::Impersonation);
    }
    let permit = security
        .in_flight
        .permit(user, &context.access, context.backend)?;
    let mut response = match security.authorize(user, &context.access, until).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => refuse(context, &refusal),
    };
    // The permit is held until the response has been written, even a refusal.
    response.extensions_mut().insert(permit);
    Ok(response)
}

fn refuse(context: &RequestContext, refusal: &Refusal) -> Response {
    response::refused(refusal, context.encoding).into_response()
}
