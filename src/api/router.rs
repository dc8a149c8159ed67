//! The handlers, and the layers around them that [`aggregated_apiserver`] does not have.
//!
//! [`super::path`], the only parser of paths, has parsed the target for the request's
//! context. Handlers serve this authorized target and no other.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::Method;
use tower::ServiceBuilder;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::layers::catch_panic;
use aggregated_apiserver::api::{layers, response};
use aggregated_apiserver::refusal::Refusal;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::reviewer::Access;

use super::answers::Api;
use super::count;
use super::request::ParsedRequest;

/// The API without layers.
pub(crate) fn routes(api: &Arc<Api>) -> Router {
    Router::new().fallback(serve).with_state(Arc::clone(api))
}

/// The API without authorization, for the demo, which has no cluster. Every client may list
/// all pods.
pub(crate) fn open(api: &Arc<Api>) -> Router {
    let inner = routes(api).layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(Arc::clone(&api.counters), catch_panic))
            .layer(from_fn(only_get))
            .layer(from_fn(all_pods)),
    );
    known(inner, api)
}

/// The API for authorized requests.
pub(crate) fn secured(routes: Router, api: &Arc<Api>, security: &Arc<Security>) -> Router {
    let inner = routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(Arc::clone(security), explanations))
            .layer(from_fn(only_get)),
    );
    known(layers::secured(inner, security), api)
}

/// Adds the layers that parse and count requests.
fn known(routes: Router, api: &Arc<Api>) -> Router {
    routes.layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(Arc::clone(api), context))
            .layer(from_fn_with_state(Arc::clone(api), count::count)),
    )
}

/// Serves every target of the API.
async fn serve(
    State(api): State<Arc<Api>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
) -> Response {
    // The body is not read; without it the future can be sent.
    let (parts, _) = request.into_parts();
    let answer = api.answer(&context, &parsed, &parts.headers).await;
    answer.into_response()
}

/// Parses the request for the inner layers, and writes the headers that every response has.
async fn context(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let parsed = ParsedRequest::of(&parts.uri);
    let context = Arc::new(parsed.context(&parts, |target| api.backend(target)));
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(Arc::clone(&context));
    request.extensions_mut().insert(Arc::new(parsed));
    let mut response = next.run(request).await;
    response::finish(response.headers_mut(), context.audit_id.clone());
    response
}

/// Sets whether an explanation or a list of devices may name the pods of all namespaces.
/// The request itself is already authorized.
async fn explanations(
    State(security): State<Arc<Security>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
    next: Next,
) -> Response {
    if parsed.names_holders() {
        let until = (security.settings).review_until(&context.access, context.began);
        let all_pods = Access::all_pods();
        let may = match context.user.get() {
            Some(user) => security.authorize(user, &all_pods, until).await.is_ok(),
            None => false,
        };
        let _ = parsed.may_list_pods.set(may);
    }
    next.run(request).await
}

/// Lets explanations and lists of devices name the pods of all namespaces.
async fn all_pods(
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
    next: Next,
) -> Response {
    let _ = parsed.may_list_pods.set(true);
    next.run(request).await
}

/// Refuses methods other than GET, because all resources are read-only.
async fn only_get(
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() == Method::GET || parsed.target.is_err() {
        return next.run(request).await;
    }
    response::refused(&Refusal::MethodNotAllowed, context.encoding).into_response()
}
