//! The HTTP client of an endpoint, and its failures below HTTP.

use std::error::Error as StdError;
use std::time::Duration;

use reqwest::Client;
use url::{Host, Url};

use crate::credentials::TlsMaterial;
use crate::error::{Error, TlsCause};
use crate::settings::PrometheusSettings;
use apimachinery::duration::format_duration;

/// Timeout of a connection and its handshakes. A slower network would not deliver an
/// answer in time either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client under the settings' limits. It follows no redirect, which could lead
/// credentials elsewhere.
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
    let addresses = || std::iter::once(&settings.url).chain(&settings.others);
    // A proxy does not lead to this host.
    let is_here = |url: &Url| matches!(url.host(), Some(Host::Ipv4(ip)) if ip.is_loopback());
    let builder = match addresses().all(is_here) {
        true => builder.no_proxy(),
        false => builder,
    };
    let secure = addresses().any(|url| url.scheme() == "https");
    material
        .apply(&settings.tls, secure, builder)?
        .build()
        .map_err(|error| Error::Tls {
            address: address.to_owned(),
            cause: TlsCause::Other,
            reason: causes(&error)
                .last()
                .map_or_else(String::new, ToString::to_string),
        })
}

/// A failure below HTTP of a request to `address` within `limit`.
pub(super) fn failure(address: &str, limit: Duration, error: &reqwest::Error) -> Error {
    let address = address.to_owned();
    if let Some(tls) = tls_error(error) {
        return Error::Tls {
            address,
            cause: TlsCause::of(tls),
            reason: tls.to_string(),
        };
    }
    if error.is_timeout() && error.is_connect() {
        let limit = format_duration(limit.min(CONNECT_TIMEOUT));
        let reason = format!("not within {limit}");
        return Error::Unreachable { address, reason };
    }
    if error.is_timeout() {
        return Error::Timeout { address, limit };
    }
    let reason = causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string);
    if error.is_connect() {
        return Error::Unreachable { address, reason };
    }
    Error::Truncated { address, reason }
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
