//! Health and `/metrics` (docs/protocol.md, "Health"; docs/metrics.md, "Metrics of the server
//! itself"). The three health paths are open, and all others need authorization.

use aggregated_apiserver::api::response::typed;
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use prometheus::TEXT_FORMAT;

use super::health::{Health, Probe};
use super::metrics::Metrics;

/// The response to `/livez`, `/readyz` or `/healthz`. With the parameter `verbose` it names all
/// checks, as a failure does.
///
/// Reasons are withheld, because the path is open to all clients.
pub(crate) fn probe(health: &Health, probe: Probe, query: Option<&str>) -> Response<Full<Bytes>> {
    let mut pairs = query.unwrap_or_default().split('&');
    // Go checks that the parameter exists, not its value.
    let verbose = pairs.any(|pair| pair.split('=').next() == Some("verbose"));
    let (mut lines, mut passes) = (String::new(), true);
    for check in health.examine(probe) {
        let name = check.name;
        lines += &match check.trouble {
            None => format!("[+]{name} ok\n"),
            Some(_) if check.counts => {
                passes = false;
                format!("[-]{name} failed: reason withheld\n")
            }
            Some(_) => format!("[-]{name} failed, which does not count: reason withheld\n"),
        };
    }
    let name = probe.name();
    if !passes {
        tracing::debug!(probe = name, "check failed");
        let body = format!("{lines}{name} check failed\n");
        return text(StatusCode::INTERNAL_SERVER_ERROR, body);
    }
    if verbose {
        return text(StatusCode::OK, format!("{lines}{name} check passed\n"));
    }
    text(StatusCode::OK, "ok")
}

/// The response to `/readyz/NAME` and similar paths, with the reason, for authorized
/// requests. `None`: the probe has no check with this name.
pub(crate) fn check(health: &Health, probe: Probe, name: &str) -> Option<Response<Full<Bytes>>> {
    let mut checks = health.examine(probe).into_iter();
    let check = checks.find(|check| check.name == name)?;
    Some(match check.trouble {
        None => text(StatusCode::OK, "ok"),
        Some(why) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {why}\n"),
        ),
    })
}

/// The response to `/metrics`, whatever format the client prefers.
pub(crate) fn metrics(metrics: &Metrics) -> Response<Full<Bytes>> {
    match metrics.render() {
        Ok(body) => typed(StatusCode::OK, TEXT_FORMAT, body.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn text(code: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    typed(code, "text/plain; charset=utf-8", body.into())
}
