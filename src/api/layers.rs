//! The layers of this server outside and inside of those of [`aggregated_apiserver`].

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::response;
use aggregated_apiserver::refusal::Refusal;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::reviewer::Access;

use super::answers::Api;
use super::request::ParsedRequest;

/// Parses the request for the inner layers, and writes the headers that every response has.
pub(super) async fn context(State(api): State<Api>, request: Request, next: Next) -> Response {
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
pub(super) async fn explanations(
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
pub(super) async fn all_pods(
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
    next: Next,
) -> Response {
    let _ = parsed.may_list_pods.set(true);
    next.run(request).await
}

/// Refuses methods other than GET, because all resources are read-only.
pub(super) async fn only_get(
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
