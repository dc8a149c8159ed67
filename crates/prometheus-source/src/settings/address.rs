//! Addresses of a Prometheus, or of several that have the same data.

use std::str::FromStr;

use url::Url;

/// Why a text is no valid address of a Prometheus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Not `http` or `https` with a host.
    /// The text is not repeated: any part of it may be a credential.
    #[error("is no URL: write http://host:port")]
    NoUrl,
    /// One of several addresses has a user or a password.
    #[error(
        "credentials stand in one of several addresses: write them into prometheus.auth, for all"
    )]
    Credentials,
}

/// Parses the address of a Prometheus: `http` or `https`, with a host.
///
/// # Errors
/// When the text is anything else.
pub fn parse_url(text: &str) -> Result<Url, InvalidUrl> {
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .filter(Url::has_host)
        .ok_or(InvalidUrl::NoUrl)
}

/// One address, or several that have the same data: a pair of Prometheus that
/// scrape the same targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The address that is used first.
    pub first: Url,
    /// The addresses that are tried in this order if the first does not answer.
    pub others: Vec<Url>,
}

impl FromStr for Addresses {
    type Err = InvalidUrl;

    /// Addresses separated by commas, each with its scheme.
    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let urls = text.split(',').map(|one| parse_url(one.trim()));
        let mut urls: Vec<Url> = urls.collect::<Result<_, _>>()?;
        let has_credentials = |url: &Url| !url.username().is_empty() || url.password().is_some();
        if urls.len() > 1 && urls.iter().any(has_credentials) {
            return Err(InvalidUrl::Credentials);
        }
        let first = urls.remove(0);
        Ok(Self {
            first,
            others: urls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let all: Addresses = text
            .parse()
            .map_err(|error: InvalidUrl| error.to_string())?;
        let urls = std::iter::once(all.first).chain(all.others);
        Ok(urls.map(|url| url.to_string()).collect())
    }

    #[test]
    fn several_addresses_are_separated_by_commas_before_a_scheme() {
        let both = Ok(vec!["http://a:9090/".to_owned(), "https://b/x".to_owned()]);
        assert_eq!(parsed("http://a:9090,https://b/x"), both);
        assert_eq!(parsed(" http://a:9090 , https://b/x "), both);
    }

    #[test]
    fn invalid_addresses_and_credentials_in_one_of_several_are_refused() {
        let wrong = "a:9090 http://a,b http://a,b:9090 http://a, http://a:1,,http://b";
        for wrong in wrong.split(' ').chain([""]) {
            let error = parsed(wrong).unwrap_err();
            assert!(error.contains("write http://host:port"), "{wrong}: {error}");
        }
        let error = parsed("http://a,http://me:hunter2@b").unwrap_err();
        let has_remedy = error.contains("prometheus.auth");
        assert!(has_remedy && !error.contains("hunter2"), "{error}");
    }
}
