//! The HTTP client of an endpoint, and its failures up to the HTTP status.

use std::error::Error as StdError;
use std::time::Duration;

use reqwest::{Client, Response};
use serde_json::Value;
use url::Host;

use super::endpoint::{BEGINNING_BYTES, Endpoint};
use crate::credentials::{Secrets, with_certificates};
use crate::error::{Error, ErrorKind};
use crate::settings::PrometheusSettings;
use apimachinery::duration::format_duration;

/// Timeout of a connection and its handshakes. A slower network would not deliver an
/// answer in time either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client with the limits of the settings. It follows no redirect, which could send
/// credentials to another server. Reads the certificate files, and blocks.
pub(super) fn build(settings: &PrometheusSettings, address: &str) -> Result<Client, Error> {
    let builder = Client::builder()
        .user_agent(concat!("gpu-metrics-apiserver/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .timeout(settings.timeout)
        .connect_timeout(settings.timeout.min(CONNECT_TIMEOUT));
    // A proxy cannot forward to a loopback address of this host.
    let is_here = matches!(settings.url.host(), Some(Host::Ipv4(ip)) if ip.is_loopback());
    let builder = if is_here { builder.no_proxy() } else { builder };
    let secure = settings.url.scheme() == "https";
    let builder = with_certificates(builder, &settings.tls, secure)?;
    builder.build().map_err(|error| {
        let text = format!("TLS: {}", innermost(&error));
        Error::new(ErrorKind::Tls, address, text)
    })
}

impl Endpoint {
    /// A failure below HTTP.
    pub(super) fn failure(&self, error: &reqwest::Error) -> Error {
        let reason = innermost(error);
        let (kind, text) = if let Some(tls) = tls_error(error) {
            (ErrorKind::Tls, format!("TLS: {tls}"))
        } else if error.is_connect() {
            (ErrorKind::Unreachable, format!("no connection: {reason}"))
        } else if error.is_timeout() {
            let limit = format_duration(self.settings.timeout);
            (ErrorKind::Timeout, format!("no answer within {limit}"))
        } else {
            (
                ErrorKind::Truncated,
                format!("the answer was cut off: {reason}"),
            )
        };
        self.failed(kind, text)
    }

    /// The error of an HTTP status other than 200.
    pub(super) async fn refusal(&self, mut response: Response, secrets: &Secrets) -> Error {
        let status = response.status();
        let mut body = Vec::new();
        // The received part is enough for a message.
        while let Ok(Some(chunk)) = response.chunk().await
            && body.len() < BEGINNING_BYTES
        {
            body.extend_from_slice(&chunk);
        }
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let excerpt = match (&said["errorType"], &said["error"]) {
            (Value::String(kind), Value::String(error)) => {
                secrets.excerpt(&format!("{kind}: {error}"))
            }
            _ => secrets.excerpt_of_beginning(&body),
        };
        let excerpt = match &*excerpt {
            "" => status.canonical_reason().unwrap_or("no text"),
            excerpt => excerpt,
        };
        let text = format!("HTTP {}: {excerpt}", status.as_u16());
        Error::refused(&self.address, status.as_u16(), text)
    }
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
