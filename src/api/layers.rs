//! The layers around the handlers, one function each. `router` puts them in
//! order; `security` decides which requests pass.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::Method;

use super::answers::Api;
use super::context::RequestContext;
use super::params::Params;
use super::response;
use super::status::Failure;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::audit::Outcome;
use aggregated_apiserver::security::authenticate::User;
use aggregated_apiserver::security::denied::Denied;
use aggregated_apiserver::security::reviewer::Access;

/// The request's context.
type Context = Extension<Arc<RequestContext>>;

/// Reads the request's context for the inner layers, and writes the headers of every
/// answer.
pub(super) async fn context(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let context = Arc::new(RequestContext::new(&parts));
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(Arc::clone(&context));
    let mut response = next.run(request).await;
    response::finish(response.headers_mut(), context.audit_id.clone());
    response
}

/// Logs each request that was refused or failed.
pub(super) async fn audit(
    State(security): State<Arc<Security>>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let user = context.user.get().map(|user| user.identity.user.as_str());
    security.audit.write(&Outcome {
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
pub(super) async fn catch_panic(
    State(api): State<Api>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request made the server panic");
            refuse(&api, &context, Denied::Panicked)
        }
    }
}

/// Ends requests that exceed the time limit.
pub(super) async fn time_limit(
    State((api, security)): State<(Api, Arc<Security>)>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let limit = security.settings.time_limit(&context.access);
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => refuse(&api, &context, Denied::TimedOut),
    }
}

/// Refuses requests with too many or too long header lines.
pub(super) async fn header_limit(
    State((api, security)): State<(Api, Arc<Security>)>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    if security.settings.head_fits(request.headers()) {
        next.run(request).await
    } else {
        refuse(&api, &context, Denied::HeadersTooLarge)
    }
}

/// Authenticates the request and removes its identity headers.
pub(super) async fn authenticate(
    State((api, security)): State<(Api, Arc<Security>)>,
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
                refuse(&api, &context, Denied::Impersonation)
            } else {
                next.run(request).await
            }
        }
        Err(denied) => refuse(&api, &context, denied),
    }
}

/// Refuses requests when too many are in flight. The answer holds the permit until it has
/// been written.
pub(super) async fn in_flight(
    State((api, security)): State<(Api, Arc<Security>)>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let fetched = context.target.as_ref().ok().and_then(|it| api.fetched(it));
    let user = context.user.get();
    let permit = match security.in_flight.permit(user, &context.access, fetched) {
        Ok(permit) => permit,
        Err(denied) => return refuse(&api, &context, denied),
    };
    let mut response = next.run(request).await;
    response.extensions_mut().insert(permit);
    response
}

/// Lets authorized requests through.
pub(super) async fn authorize(
    State((api, security)): State<(Api, Arc<Security>)>,
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    let until = security
        .settings
        .review_until(&context.access, context.began);
    let user: Option<&User> = context.user.get();
    if let Err(denied) = security.authorize.check(user, &context.access, until).await {
        return refuse(&api, &context, denied);
    }
    if context.params.as_ref().is_ok_and(Params::explain) {
        let all_pods = Access::all_pods();
        let may = security.authorize.check(user, &all_pods, until).await;
        let _ = context.may_list_pods.set(may.is_ok());
    }
    next.run(request).await
}

/// Refuses methods other than GET: all resources are read-only.
pub(super) async fn only_get(
    Extension(context): Context,
    request: Request,
    next: Next,
) -> Response {
    if request.method() == Method::GET || context.target.is_err() {
        return next.run(request).await;
    }
    response::failure(Failure::MethodNotAllowed, context.manner).into_response()
}

/// The answer to a refused request, counted, and marked for the audit.
fn refuse(api: &Api, context: &RequestContext, denied: Denied) -> Response {
    api.counters().refused(denied.kind());
    let failure = Failure::Denied(Box::new(denied.clone()));
    let mut response = response::failure(failure, context.manner).into_response();
    response.extensions_mut().insert(denied);
    response
}
