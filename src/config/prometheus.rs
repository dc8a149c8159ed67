//! `prometheus`: address of the metrics engine and settings of its queries.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_saphyr::Spanned;
use url::Url;

use super::address::Addresses;
use super::credentials::{Auth, ClientPair, Password, Pem, Secret, Tls};
use super::problem::Problem;
use super::raw;
use super::value;

/// Access to Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusSettings {
    /// Its address, with any path prefix, without credentials.
    pub url: Url,
    /// Further addresses with the same data, in the order in which they are asked.
    pub others: Vec<Url>,
    /// Authentication.
    pub auth: Auth,
    /// Headers sent with each request (`X-Scope-OrgID`).
    pub headers: HeaderMap,
    /// Certificates.
    pub tls: Tls,
    /// GET or POST.
    pub verb: Verb,
    /// Timeout of one query, including connecting and receiving.
    pub timeout: Duration,
    /// Whether answers may be compressed.
    pub compression: Compression,
    /// How metric names may be matched.
    pub name_matching: NameMatching,
    /// The memory for all current answers, decompressed, in bytes. One answer takes
    /// at most a quarter.
    pub max_body_bytes: usize,
    /// The most concurrent queries of rules, and as many of resource rules.
    pub max_concurrent_queries: u16,
    /// Labels that every series must have with exactly this value: in stores of
    /// several clusters, those of this cluster (docs/stores.md, "What to set").
    pub matchers: Vec<(String, String)>,
}

impl PrometheusSettings {
    /// `prometheus.timeout`: an answer that takes longer than two default poll
    /// intervals is too late.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
    /// `prometheus.maxBodyBytes`: a quarter is enough for 80,000 GPUs at once
    /// (docs/limits.md, "Memory").
    pub const DEFAULT_MAX_BODY_BYTES: usize = 512 << 20;
    /// `prometheus.maxConcurrentQueries`.
    pub const DEFAULT_MAX_CONCURRENT_QUERIES: u16 = 32;

    /// The default settings for some addresses.
    #[must_use]
    pub fn at(Addresses { first, others }: Addresses) -> Self {
        Self {
            others,
            ..Self::new(first)
        }
    }

    /// The default settings for an address; credentials in it (`user:pass@`)
    /// become basic authentication, so that the logged address has none.
    #[must_use]
    pub fn new(mut url: Url) -> Self {
        let auth = match (url.username(), url.password()) {
            ("", None) => Auth::None,
            (username, password) => Auth::Basic {
                username: decoded(username),
                password: Password::Inline(Secret(decoded(password.unwrap_or_default()))),
            },
        };
        // Both fail only for addresses without a host, which `parse_url` refuses.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        Self {
            url,
            others: Vec::new(),
            auth,
            headers: HeaderMap::new(),
            tls: Tls::default(),
            verb: Verb::default(),
            timeout: Self::DEFAULT_TIMEOUT,
            compression: Compression::default(),
            name_matching: NameMatching::default(),
            max_body_bytes: Self::DEFAULT_MAX_BODY_BYTES,
            max_concurrent_queries: Self::DEFAULT_MAX_CONCURRENT_QUERIES,
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

/// Content encoding of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed: inside a cluster the network costs less than compression by the
    /// store.
    #[default]
    None,
    /// Compressed with gzip, about ten times smaller: for a distant store.
    Gzip,
}

/// How metric names are matched in queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameMatching {
    /// All spellings of a name in one query; one query for each once the store
    /// refuses that.
    #[default]
    Auto,
    /// One query for each spelling: for stores that match names only by equality.
    Exact,
}

/// Decodes the percent-encoding of a URL's user information.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

/// The settings of the section. `flag` is an address from the command line, which
/// overrides the file's.
pub(super) fn resolve(
    raw: Option<raw::Prometheus>,
    flag: Option<&Addresses>,
) -> Result<Option<PrometheusSettings>, Problem> {
    let Some(raw) = raw else {
        return Ok(flag.cloned().map(PrometheusSettings::at));
    };
    let addresses = match (flag, &raw.url) {
        (Some(addresses), _) => addresses.clone(),
        (None, Some(text)) => (text.value.parse::<Addresses>())
            .map_err(|error| Problem::at("prometheus.url", text, error.to_string()))?,
        (None, None) => {
            return Err(Problem::missing(
                "prometheus.url",
                "is missing: write http://host:port, or give --prometheus-url",
            ));
        }
    };
    let mut settings = PrometheusSettings::at(addresses);
    if let Some(auth) = &raw.auth {
        settings.auth = resolve_auth(auth)?;
    }
    settings.headers = resolve_headers(&raw.headers)?;
    if let Some(tls) = raw.tls {
        settings.tls = resolve_tls(tls)?;
    }
    if let Some(verb) = &raw.verb {
        let choices = [("GET", Verb::Get), ("POST", Verb::Post)];
        settings.verb = value::choice("prometheus.verb", verb, &choices)?;
    }
    if let Some(timeout) = &raw.timeout {
        settings.timeout = value::positive_duration("prometheus.timeout", timeout)?;
    }
    if let Some(compression) = &raw.compression {
        let choices = [("none", Compression::None), ("gzip", Compression::Gzip)];
        settings.compression = value::choice("prometheus.compression", compression, &choices)?;
    }
    if let Some(matching) = &raw.name_matching {
        let choices = [("auto", NameMatching::Auto), ("exact", NameMatching::Exact)];
        settings.name_matching = value::choice("prometheus.nameMatching", matching, &choices)?;
    }
    if let Some(bytes) = &raw.max_body_bytes {
        settings.max_body_bytes = value::count("prometheus.maxBodyBytes", bytes)?;
    }
    if let Some(queries) = &raw.max_concurrent_queries {
        settings.max_concurrent_queries = value::count("prometheus.maxConcurrentQueries", queries)?;
    }
    for (label, wanted) in raw.matchers {
        let key = format!("prometheus.matchers.{label}");
        if !value::is_identifier(&label) {
            let message = format!("{label:?} is no label name: write one such as cluster");
            return Err(Problem::at(&key, &wanted, message));
        }
        settings.matchers.push((label, wanted.value));
    }
    Ok(Some(settings))
}

fn resolve_auth(auth: &Spanned<raw::Auth>) -> Result<Auth, Problem> {
    let wrong = |message: &str| Err(Problem::at("prometheus.auth", auth, message));
    match (&auth.value.bearer_token_file, &auth.value.basic) {
        (Some(_), Some(_)) => wrong("has both bearerTokenFile and basic: keep one of them"),
        (None, None) => wrong("is empty: write bearerTokenFile or basic, or leave it out"),
        (Some(file), None) => Ok(Auth::BearerTokenFile(file.into())),
        (None, Some(basic)) if basic.username.value.contains(':') => Err(Problem::at(
            "prometheus.auth.basic.username",
            &basic.username,
            "holds a colon, which HTTP forbids: write the user alone, the password goes into passwordFile",
        )),
        (None, Some(basic)) => Ok(Auth::Basic {
            username: basic.username.value.clone(),
            password: Password::File((&basic.password_file).into()),
        }),
    }
}

fn resolve_headers(
    raw: &std::collections::BTreeMap<String, raw::Text>,
) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    for (name, text) in raw {
        // An invalid name is not repeated: it may be a value.
        let parsed: HeaderName = name.parse().map_err(|_| {
            let message = "a key is no header name: write one such as X-Scope-OrgID";
            Problem::at("prometheus.headers", text, message)
        })?;
        let key = format!("prometheus.headers.{name}");
        // The value is not repeated: it may be a secret.
        let mut value: HeaderValue = text.value.parse().map_err(|_| {
            let message =
                "its value is no header value: it must be one line without control characters";
            Problem::at(&key, text, message)
        })?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

fn resolve_tls(tls: Spanned<raw::Tls>) -> Result<Tls, Problem> {
    let client = match (&tls.value.cert_file, &tls.value.key_file) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some(ClientPair {
            cert: Pem::File(cert.into()),
            key: Pem::File(key.into()),
        }),
        (Some(_), None) => {
            let message = "has certFile without keyFile: name the certificate's private key too";
            return Err(Problem::at("prometheus.tls", &tls, message));
        }
        (None, Some(_)) => {
            let message = "has keyFile without certFile: name the key's certificate too";
            return Err(Problem::at("prometheus.tls", &tls, message));
        }
    };
    Ok(Tls {
        ca: tls.value.ca_file.map(|file| Pem::File(file.into())),
        client,
        unverified: false,
    })
}
