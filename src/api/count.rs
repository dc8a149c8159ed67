//! The layer that counts requests and measures their duration. The set of labels is fixed:
//! no label contains a client's text.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use aggregated_apiserver::api::context::RequestContext;

use crate::telemetry::metrics::Metrics;

use super::answers::Api;
use super::path::{ApiTarget, ResourceKind};
use super::request::ParsedRequest;

/// Counts the request under its target, whatever the response.
pub(super) async fn count(
    State(api): State<Arc<Api>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Extension(parsed): Extension<Arc<ParsedRequest>>,
    request: Request,
    next: Next,
) -> Response {
    let metrics = &*api.telemetry.metrics;
    let in_flight = InFlight::begin(metrics);
    let response = next.run(request).await;
    drop(in_flight);
    let [group, resource] = subject(&parsed);
    let code = response.status();
    let values = [group, resource, code.as_str()];
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

/// The API group and the resource of a request. The group is empty for other paths; the
/// resource is then what the path is for.
fn subject(parsed: &ParsedRequest) -> [&'static str; 2] {
    let target = match &parsed.target {
        Ok(ApiTarget::Resource(target)) => target,
        Ok(ApiTarget::Health(..)) => return ["", "health"],
        Ok(ApiTarget::Metrics) => return ["", "metrics"],
        Ok(ApiTarget::OpenApi(_)) => return ["", "openapi"],
        Ok(ApiTarget::Discovery(_)) => return ["", "discovery"],
        Err(_) => return ["", "other"],
    };
    let resource = match target.kind {
        ResourceKind::CustomMetric => "custom",
        ResourceKind::ExternalMetric => "external",
        ResourceKind::Usage(measured) => measured.resource(),
        ResourceKind::Findings => "findings",
        ResourceKind::Devices => "devices",
    };
    [target.of.group.name(), resource]
}
