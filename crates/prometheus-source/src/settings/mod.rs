//! Settings of a store: its address, credentials, and limits of the queries.

mod credentials;

use std::time::Duration;

use http::HeaderMap;
use url::Url;

pub use credentials::{Auth, ClientPair, Credentials, SecretSource, Tls};

/// Access to Prometheus.
#[derive(Clone, Debug)]
pub struct PrometheusSettings {
    /// Its address, with any path prefix, without credentials.
    pub url: Url,
    pub auth: Auth,
    /// Headers sent with each request (`X-Scope-OrgID`).
    pub headers: HeaderMap,
    pub tls: Tls,
    pub verb: Verb,
    /// Timeout of one query, including connecting and receiving.
    pub timeout: Duration,
    /// The most concurrent queries of rules; resource rules have their own, equal limit.
    pub max_concurrent_queries: u16,
    /// Labels that every series must have with exactly this value: in stores of
    /// several clusters, those of this cluster (docs/stores.md, "What to set").
    pub matchers: Vec<(String, String)>,
}

impl PrometheusSettings {
    /// `prometheus.timeout`: an answer that takes longer than two default poll
    /// intervals is too late.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The default settings for an address; credentials in it (`user:pass@`)
    /// become basic authentication, so that the logged address has none.
    #[must_use]
    pub fn new(mut url: Url) -> Self {
        let auth = match (url.username(), url.password()) {
            ("", None) => Auth::None,
            (username, password) => Auth::Basic {
                username: decoded(username),
                password: SecretSource::Inline(decoded(password.unwrap_or_default()).into()),
            },
        };
        // Both fail only for addresses without a host, which `parse_url` refuses.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        Self {
            url,
            auth,
            headers: HeaderMap::new(),
            tls: Tls::default(),
            verb: Verb::default(),
            timeout: Self::DEFAULT_TIMEOUT,
            max_concurrent_queries: 32,
            matchers: Vec::new(),
        }
    }
}

/// The HTTP method of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// Supported everywhere; the queries are short.
    #[default]
    Get,
    /// A form, for proxies that log URLs or limit their length.
    Post,
}

/// The fault of a text that is no address of a Prometheus. The text is not repeated: any part of
/// it may be a credential.
const NO_URL: &str =
    "is no URL: write http://host:port, of a store or a Service in front of several Prometheus";

/// Parses the address of a Prometheus: `http` or `https`, with a host.
///
/// # Errors
/// When the text is anything else.
pub fn parse_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text.trim()).ok();
    // Addresses of these schemes have a host.
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or(NO_URL)
}

/// Decodes the percent-encoding of a URL's user information.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_address_with_its_scheme_is_accepted() {
        let url = parse_url(" https://b/x?a=1,2 ").unwrap();
        assert_eq!(url.as_str(), "https://b/x?a=1,2");
        let wrong = ["", "a:9090", "ftp://a", "http://", "http://a:9090,http://b"];
        for wrong in wrong {
            assert_eq!(parse_url(wrong), Err(NO_URL), "{wrong}");
        }
    }
}
