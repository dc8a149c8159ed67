//! The handler, and the layers around it that [`aggregated_apiserver`] does not have.
//!
//! [`super::path`], the only parser of paths, has parsed the target for the request's
//! context. The handler serves this authorized target and no other.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::layers::catch_panic;
use aggregated_apiserver::api::{layers, response};
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::reviewer::Access;

use super::answers::Api;
use super::request::ParsedRequest;

/// Whose requests may name the pods of all namespaces in explanations and lists of devices.
#[derive(Clone, Debug)]
enum Naming {
    /// Every request: a demonstration has no users.
    Everyone,
    /// Those of users that may list all pods.
    Reviewed(Arc<Security>),
}

/// The API without layers.
pub(crate) fn routes(api: &Arc<Api>) -> Router {
    Router::new().fallback(serve).with_state(Arc::clone(api))
}

/// The API without authorization, for the demo, which has no cluster.
pub(crate) fn open(api: &Arc<Api>) -> Router {
    let inner = routes(api).layer(Extension(Naming::Everyone));
    known(inner.layer(from_fn(catch_panic)), api)
}

/// The API for authorized requests.
pub(crate) fn secured(routes: Router, api: &Arc<Api>, security: &Arc<Security>) -> Router {
    let inner = routes.layer(Extension(Naming::Reviewed(Arc::clone(security))));
    known(layers::secured(inner, security), api)
}

/// Adds the layer that parses and counts requests.
fn known(routes: Router, api: &Arc<Api>) -> Router {
    routes.layer(from_fn_with_state(Arc::clone(api), parse))
}

/// Serves every target of the API.
async fn serve(
    State(api): State<Arc<Api>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    Extension(naming): Extension<Naming>,
    request: Request,
) -> Response {
    // The body is not read; without it the future can be sent.
    let (parts, _) = request.into_parts();
    let may_list_pods = naming.allows(&context, &parsed).await;
    let answer = api.answer(&context, &parsed, &parts.headers, may_list_pods);
    answer.await.into_response()
}

/// Parses the request for the inner layers, writes the headers that every response has, and
/// counts the request under its target. No label contains a client's text.
async fn parse(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let parsed = Arc::new(ParsedRequest::of(&parts.uri));
    let context = Arc::new(parsed.context(&parts, |target| api.backend(target)));
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(Arc::clone(&context));
    request.extensions_mut().insert(Arc::clone(&parsed));
    let mut response = next.run(request).await;
    response::finish(response.headers_mut(), context.audit_id.clone());
    let ([group, resource], code) = (parsed.subject(), response.status());
    let metrics = &api.telemetry.metrics;
    let values = [group, resource, code.as_str()];
    metrics.requests_total.add(values, 1);
    let duration = &metrics.request_duration_seconds;
    duration.observe([group, resource], context.began.elapsed());
    response
}

impl Naming {
    /// Whether the response to a request, which is authorized, may name the pods of all
    /// namespaces.
    async fn allows(&self, context: &RequestContext, parsed: &ParsedRequest) -> bool {
        let security = match self {
            Self::Everyone => return true,
            Self::Reviewed(security) => security,
        };
        let Some(user) = context.user.get().filter(|_| parsed.names_holders()) else {
            return false;
        };
        let until = (security.settings).review_until(&context.access, context.began);
        let all_pods = Access::all_pods();
        security.authorize(user, &all_pods, until).await.is_ok()
    }
}
