//! Health and `/metrics` (docs/protocol.md, "Health"; docs/metrics.md, "Metrics of the server
//! itself"). The three health paths are open, and `/metrics` needs authorization.

use aggregated_apiserver::api::response::typed;
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use prometheus::TEXT_FORMAT;

use super::health::{Health, Probe};
use super::metrics::Metrics;

/// The response to `/livez`, `/readyz` or `/healthz`. With the parameter `verbose` it names all
/// checks, as a failure does. The reasons are in the log, because the path is open to all
/// clients.
pub(crate) fn probe(health: &Health, probe: Probe, query: Option<&str>) -> Response<Full<Bytes>> {
    let mut pairs = query.unwrap_or_default().split('&');
    // Go checks that the parameter exists, not its value.
    let verbose = pairs.any(|pair| pair.split('=').next() == Some("verbose"));
    let (mut lines, mut passes) = (String::new(), true);
    for check in health.examine(probe) {
        passes &= check.passes;
        lines += &match check.passes {
            true => format!("[+]{} ok\n", check.name),
            false => format!("[-]{} failed: reason withheld\n", check.name),
        };
    }
    let name = probe.name();
    let (code, body) = match (passes, verbose) {
        (false, _) => {
            let body = format!("{lines}{name} check failed\n");
            (StatusCode::INTERNAL_SERVER_ERROR, body)
        }
        (true, true) => (StatusCode::OK, format!("{lines}{name} check passed\n")),
        (true, false) => (StatusCode::OK, "ok".to_owned()),
    };
    text(code, body)
}

/// The response to `/metrics`, whatever format the client prefers.
pub(crate) fn metrics(metrics: &Metrics) -> Response<Full<Bytes>> {
    match metrics.render() {
        Ok(body) => typed(StatusCode::OK, TEXT_FORMAT, body.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    typed(code, "text/plain; charset=utf-8", body.into())
}
