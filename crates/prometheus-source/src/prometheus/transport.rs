//! The HTTP client of an endpoint, and its failures up to the HTTP status.

use std::error::Error as StdError;
use std::time::Duration;

use http::header;
use reqwest::{Client, Response};
use url::Host;

use crate::credentials::{Secrets, TlsMaterial};
use crate::decode;
use crate::error::{Error, ErrorKind};
use crate::settings::PrometheusSettings;
use apimachinery::duration::format_duration;

/// Timeout of a connection and its handshakes. A slower network would not deliver an
/// answer in time either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of an error's body is read for its message.
pub(super) const ERROR_BODY_BYTES: usize = 64 << 10;

/// A client with the limits of the settings. It follows no redirect, which could send
/// credentials to another server.
pub(super) fn build(
    settings: &PrometheusSettings,
    material: &TlsMaterial,
    address: &str,
) -> Result<Client, Error> {
    let builder = Client::builder()
        .user_agent(concat!("gpu-metrics-apiserver/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .timeout(settings.timeout)
        .connect_timeout(settings.timeout.min(CONNECT_TIMEOUT));
    // A proxy cannot forward to a loopback address of this host.
    let is_here = matches!(settings.url.host(), Some(Host::Ipv4(ip)) if ip.is_loopback());
    let builder = if is_here { builder.no_proxy() } else { builder };
    let secure = settings.url.scheme() == "https";
    material
        .apply(&settings.tls, secure, builder)?
        .build()
        .map_err(|error| {
            let text = format!("TLS: {}", innermost(&error));
            Error::new(ErrorKind::Tls, address, text)
        })
}

/// A failure below HTTP of a request to `address` with the timeout `limit`.
pub(super) fn failure(address: &str, limit: Duration, error: &reqwest::Error) -> Error {
    let failed = |kind, text| Error::new(kind, address, text);
    if let Some(tls) = tls_error(error) {
        return failed(ErrorKind::Tls, format!("TLS: {tls}"));
    }
    if error.is_timeout() && error.is_connect() {
        let limit = format_duration(limit.min(CONNECT_TIMEOUT));
        let text = format!("no connection: not within {limit}");
        return failed(ErrorKind::Unreachable, text);
    }
    if error.is_timeout() {
        let text = format!("no answer within {}", format_duration(limit));
        return failed(ErrorKind::Timeout, text);
    }
    let reason = innermost(error);
    if error.is_connect() {
        return failed(ErrorKind::Unreachable, format!("no connection: {reason}"));
    }
    let text = format!("the answer was cut off: {reason}");
    failed(ErrorKind::Truncated, text)
}

/// The error of an HTTP status other than 200.
pub(super) async fn refusal(address: &str, mut response: Response, secrets: &Secrets) -> Error {
    let status = response.status();
    let mut body = Vec::new();
    // The received part is enough for a message.
    while let Ok(Some(chunk)) = response.chunk().await
        && body.len() < ERROR_BODY_BYTES
    {
        body.extend_from_slice(&chunk);
    }
    let location = response.headers().get(header::LOCATION);
    let location = location.and_then(|value| value.to_str().ok());
    let excerpt = match (location, decode::api_error(&body)) {
        (Some(to), _) if status.is_redirection() => {
            let to = to.split(['?', '#']).next().unwrap_or_default();
            format!("redirected to {}", secrets.excerpt(to))
        }
        (_, Some((kind, error))) => secrets.excerpt(&format!("{kind}: {error}")),
        _ => secrets.excerpt_of_beginning(&body),
    };
    let excerpt = match &*excerpt {
        "" => status.canonical_reason().unwrap_or("no text"),
        excerpt => excerpt,
    };
    let text = format!("HTTP {}: {excerpt}", status.as_u16());
    let answer = String::from_utf8_lossy(&body);
    Error::refused(address, status.as_u16(), &answer, text)
}

/// The message of the innermost cause.
fn innermost(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}

/// An error and its causes, outermost first. The cause of an [`std::io::Error`] is
/// its content, which `source` skips.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        match error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}
