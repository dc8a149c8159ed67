//! The address of a Prometheus.

use url::Url;

/// A text that is no address of a Prometheus. It is not repeated: any part of it may be a
/// credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is no URL: write http://host:port, of a store or a Service in front of several Prometheus"
)]
pub struct InvalidUrl;

/// Parses the address of a Prometheus: `http` or `https`, with a host.
///
/// # Errors
/// When the text is anything else.
pub fn parse_url(text: &str) -> Result<Url, InvalidUrl> {
    let is_list = text.split(',').skip(1).any(|next| next.contains("://"));
    Url::parse(text.trim())
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .filter(|url| url.host_str().is_some_and(|host| !host.contains(',')))
        .filter(|_| !is_list)
        .ok_or(InvalidUrl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_address_with_its_scheme_is_accepted() {
        let url = parse_url(" https://b/x?a=1,2 ").unwrap();
        assert_eq!(url.as_str(), "https://b/x?a=1,2");
        for wrong in ["", "a:9090", "ftp://a", "http://a,b", "http://a,b:9090"] {
            assert_eq!(parse_url(wrong), Err(InvalidUrl), "{wrong}");
        }
        for wrong in ["http://a:9090,https://b", "http://a, http://b"] {
            assert_eq!(parse_url(wrong), Err(InvalidUrl), "{wrong}");
        }
    }
}
