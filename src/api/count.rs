//! The layer that counts requests and measures their duration. The set of labels is fixed:
//! no label contains a client's text.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;

use aggregated_apiserver::api::context::RequestContext;

use crate::provider::ListedMetrics;
use crate::telemetry::metrics::Metrics;

use super::answers::Api;
use super::path::{ApiTarget, ResourceKind, ResourceTarget};
use super::request::ParsedRequest;

/// Counts the request under its target, whatever the response.
pub(super) async fn count(
    State(api): State<Api>,
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
    next: Next,
) -> Response {
    let metrics = &*api.telemetry().metrics;
    let in_flight = InFlight::begin(metrics);
    let response = next.run(request).await;
    drop(in_flight);
    let listed = match parsed.target {
        Ok(ApiTarget::Resource(_)) => api.listed(),
        _ => Arc::default(),
    };
    let [verb, group, resource] = labels(&listed, &context.method, &parsed);
    let code = response.status();
    let values = [verb, group, resource, code.as_str()];
    metrics.requests_total.add(values, 1);
    let took = context.began.elapsed();
    metrics
        .request_duration_seconds
        .observe([group, resource], took);
    response
}

/// A request in flight, until it is answered or its client has disconnected.
struct InFlight(prometheus::Gauge);

impl InFlight {
    fn begin(metrics: &Metrics) -> Self {
        let gauge = metrics.requests_in_flight.with([]);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The verb, the API group and the resource of a request. The group is empty for other paths;
/// the resource is then what the path is for.
fn labels<'c>(
    listed: &'c ListedMetrics,
    method: &Method,
    parsed: &'c ParsedRequest,
) -> [&'c str; 3] {
    let resource = match &parsed.target {
        Ok(ApiTarget::Resource(target)) => return of_resource(target, listed, method, parsed),
        Ok(ApiTarget::Health(..)) => "health",
        Ok(ApiTarget::Metrics) => "metrics",
        Ok(ApiTarget::OpenApi(_)) => "openapi",
        Ok(ApiTarget::Discovery(_)) => "discovery",
        Err(_) => "other",
    };
    [verb(method, "get"), "", resource]
}

fn of_resource<'c>(
    target: &'c ResourceTarget,
    listed: &'c ListedMetrics,
    method: &Method,
    parsed: &ParsedRequest,
) -> [&'c str; 3] {
    let resource = match target.kind {
        ResourceKind::CustomMetric => {
            let resource = target.described();
            let first = listed.custom.partition_point(|it| *it.resource < *resource);
            let known = listed.custom.get(first);
            let known = known.filter(|it| *it.resource == *resource);
            known.map_or("other", |it| &it.resource)
        }
        ResourceKind::ExternalMetric => "external",
        // The parser admits only known resources.
        ResourceKind::Usage(_) | ResourceKind::Findings | ResourceKind::Devices => &target.resource,
    };
    let get = target.verb(parsed.watches());
    [verb(method, get), target.of.group.name(), resource]
}

/// The verb as a label; `get` is the verb of a GET to this target.
fn verb(method: &Method, get: &'static str) -> &'static str {
    match *method {
        Method::GET => get,
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}
