//! The section `prometheus`: the connection to Prometheus.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use url::Url;

use adapter_rules::labels::is_label;
use adapter_rules::raw::Text;
use cloud_auth::{AuthMethod, AwsSettings, AzureSettings, GoogleSettings, OAuth2Settings};
use limits::file::yaml;
use prometheus_source::settings::parse_url;
use prometheus_source::settings::{Auth, ClientPair, SecretSource, Tls};
use prometheus_source::settings::{PrometheusSettings, Verb};

use super::problem::Problem;
use super::value::{Choice, Count, Scalar, Setting, Within, Words, or};

/// `prometheus`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Connection {
    url: Option<Text>,
    auth: Option<Authentication>,
    #[serde(default)]
    headers: BTreeMap<String, Scalar<HeaderValue>>,
    tls: Option<Certificates>,
    verb: Option<Scalar<Verb>>,
    timeout: Option<Scalar<Timeout>>,
    max_concurrent_queries: Option<Scalar<Count>>,
    #[serde(default)]
    matchers: BTreeMap<String, Text>,
}

const NO_ADDRESS: &str = "is missing: write http://host:port, or give --prometheus-url";

/// Longer than any query may take.
type Timeout = Within<1, 86_400_000>;

impl Choice for Verb {
    const WORDS: Words<Self> = &[("GET", Self::Get), ("POST", Self::Post)];
}

/// The error does not repeat the value, which may be a secret.
impl Setting for HeaderValue {
    type Value = Self;

    fn parse(text: &str) -> Result<Self, String> {
        let mut value = Self::from_str(text).map_err(
            |_| "its value is no header value: it must be one line without control characters",
        )?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl Connection {
    /// The settings of the section. `flag` is an address from the command line, which
    /// overrides the file's.
    pub(super) fn settings(self, flag: Option<&Url>) -> Result<PrometheusSettings, Problem> {
        const URL: &str = "prometheus.url";
        let address = match (flag, &self.url) {
            (Some(address), _) => address.clone(),
            (None, Some(text)) => {
                parse_url(&text.value).map_err(|error| Problem::at(URL, text, error))?
            }
            (None, None) => return Err(Problem::missing(URL, NO_ADDRESS)),
        };
        let default = PrometheusSettings::new(address);
        let mut settings = PrometheusSettings {
            auth: self.auth.map_or(default.auth, Auth::from),
            tls: self.tls.unwrap_or_default().settings()?,
            verb: or(&self.verb, default.verb),
            timeout: or(&self.timeout, default.timeout),
            max_concurrent_queries: or(
                &self.max_concurrent_queries,
                default.max_concurrent_queries,
            ),
            ..default
        };
        for (name, value) in self.headers {
            // The error does not repeat an invalid name, because it may be a value.
            let name: HeaderName = name.parse().map_err(|_| {
                let message = "a key is no header name: write one such as X-Scope-OrgID";
                Problem::at("prometheus.headers", &value.0, message)
            })?;
            settings.headers.insert(name, value.0.value);
        }
        for (label, wanted) in self.matchers {
            if !is_label(&label) {
                let message = format!("{label:?} is no label name: write one such as cluster");
                return Err(Problem::at("prometheus.matchers", &wanted, message));
            }
            settings.matchers.push((label, wanted.value));
        }
        Ok(settings)
    }
}

/// Parses `prometheus.auth` from a flag.
pub(super) fn auth(text: &str) -> Result<Auth, String> {
    let read = yaml::first_document::<Option<Authentication>>(text);
    let (auth, _) = read.map_err(|fault| yaml::message(&fault.error).into_owned())?;
    auth.map(Auth::from)
        .ok_or_else(|| "is empty: write '{sigv4: {}}'".to_owned())
}

/// `prometheus.auth`: one of these.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    expecting = "one of bearerTokenFile, basic, sigv4, google, azure and oauth2"
)]
enum Authentication {
    BearerTokenFile(PathBuf),
    Basic {
        username: String,
        password_file: PathBuf,
    },
    Sigv4(AwsSettings),
    Google(GoogleSettings),
    Azure(AzureSettings),
    Oauth2(OAuth2Settings),
}

impl From<Authentication> for Auth {
    fn from(section: Authentication) -> Self {
        Self::Cloud(match section {
            Authentication::BearerTokenFile(file) => {
                return Self::Bearer(SecretSource::File(file));
            }
            Authentication::Basic {
                username,
                password_file,
            } => {
                let password = SecretSource::File(password_file);
                return Self::Basic { username, password };
            }
            Authentication::Sigv4(settings) => AuthMethod::SigV4(settings),
            Authentication::Google(settings) => AuthMethod::Google(settings),
            Authentication::Azure(settings) => AuthMethod::Azure(settings),
            Authentication::Oauth2(settings) => AuthMethod::OAuth2(settings),
        })
    }
}

/// `prometheus.tls`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Certificates {
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
}

impl Certificates {
    fn settings(self) -> Result<Tls, Problem> {
        let client = match (self.cert_file, self.key_file) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(ClientPair {
                cert: SecretSource::File(cert),
                key: SecretSource::File(key),
            }),
            _ => {
                let message = "has only one of certFile and keyFile: set both";
                return Err(Problem::missing("prometheus.tls", message));
            }
        };
        Ok(Tls {
            ca: self.ca_file.map(SecretSource::File),
            client,
            unverified: false,
        })
    }
}
