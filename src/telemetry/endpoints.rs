//! The operators' paths, health and `/metrics`, for any port (docs/protocol.md, "Health";
//! docs/metrics.md, "Metrics of the server itself").
//!
//! Access depends on the port. On the main port the three health paths are open, and all
//! others need authorization.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use prometheus::TEXT_FORMAT;

use super::health::{Health, Probe};
use super::metrics::Metrics;

/// The longest name of a check.
const MAX_NAME: usize = 63;

/// The response to `/livez`, `/readyz` or `/healthz`; `query` is the raw query string
/// (`verbose`, and any number of `exclude=NAME`).
///
/// Reasons are withheld, because the path is open to all clients.
pub(crate) fn probe(health: &Health, probe: Probe, query: Option<&str>) -> Response<Full<Bytes>> {
    let (mut verbose, mut exclude) = (false, Vec::new());
    for pair in query.unwrap_or_default().split('&') {
        match pair.split_once('=').unwrap_or((pair, "")) {
            // Go checks that the parameter exists, not its value.
            ("verbose", _) => verbose = true,
            ("exclude", name) if is_name(name) => exclude.push(name),
            _ => {}
        }
    }
    let (mut lines, mut well) = (String::new(), true);
    let mut unknown = exclude.clone();
    for check in health.examine(probe) {
        let name = check.name;
        unknown.retain(|excluded| *excluded != name);
        let line = if exclude.contains(&name) {
            format!("[+]{name} excluded: ok\n")
        } else if check.trouble.is_none() {
            format!("[+]{name} ok\n")
        } else if check.counts {
            well = false;
            format!("[-]{name} failed: reason withheld\n")
        } else {
            format!("[-]{name} failed, which does not count: reason withheld\n")
        };
        lines.push_str(&line);
    }
    if !unknown.is_empty() {
        let names = unknown.join("\",\"");
        let warning = "warn: some health checks cannot be excluded: no matches for";
        lines.push_str(&format!("{warning} \"{names}\"\n"));
    }
    let name = probe.name();
    if !well {
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

fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(allowed)
}

fn text(code: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    typed(code, "text/plain; charset=utf-8", body.into())
}

fn typed(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
