//! The section `prometheus`: the connection to Prometheus.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use url::Url;

use adapter_rules::labels::is_label;
use adapter_rules::raw::Text;
use cloud_auth::{
    AuthMethod, AwsSettings, AzureCloud, AzureSettings, GoogleSettings, OAuth2Settings,
};
use limits::file::yaml;
use prometheus_source::settings::parse_url;
use prometheus_source::settings::{Auth, ClientPair, Password, Pem, Tls};
use prometheus_source::settings::{Compression, NameMatching, PrometheusSettings, Verb};

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
    compression: Option<Scalar<Compression>>,
    name_matching: Option<Scalar<NameMatching>>,
    max_concurrent_queries: Option<Scalar<Count<u16>>>,
    #[serde(default)]
    matchers: BTreeMap<String, Text>,
}

/// Longer than any query may take.
type Timeout = Within<1, 86_400_000>;

impl Choice for Verb {
    const WORDS: Words<Self> = &[("GET", Self::Get), ("POST", Self::Post)];
}

impl Choice for Compression {
    const WORDS: Words<Self> = &[("none", Self::None), ("gzip", Self::Gzip)];
}

impl Choice for NameMatching {
    const WORDS: Words<Self> = &[("auto", Self::Auto), ("exact", Self::Exact)];
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
    /// The settings of the section at `key`. `flag` is an address from the command line,
    /// which overrides the file's.
    pub(super) fn settings(
        self,
        key: &str,
        flag: Option<&Url>,
    ) -> Result<PrometheusSettings, Problem> {
        let url = format!("{key}.url");
        let address = match (flag, &self.url) {
            (Some(address), _) => Ok(address.clone()),
            (None, Some(text)) => {
                parse_url(&text.value).map_err(|error| Problem::at(&url, text, error.to_string()))
            }
            (None, None) => {
                let message = "is missing: write http://host:port, or give --prometheus-url";
                Err(Problem::missing(&url, message))
            }
        }?;
        let default = PrometheusSettings::new(address);
        let mut settings = PrometheusSettings {
            auth: self.auth.map_or(default.auth, |Authentication(it)| it),
            tls: self.tls.map_or(default.tls, |Certificates(it)| it),
            verb: or(&self.verb, default.verb),
            timeout: or(&self.timeout, default.timeout),
            compression: or(&self.compression, default.compression),
            name_matching: or(&self.name_matching, default.name_matching),
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
                Problem::at(&format!("{key}.headers"), &value.0, message)
            })?;
            settings.headers.insert(name, value.0.value);
        }
        for (label, wanted) in self.matchers {
            if !is_label(&label) {
                let key = format!("{key}.matchers.{label}");
                let message = format!("{label:?} is no label name: write one such as cluster");
                return Err(Problem::at(&key, &wanted, message));
            }
            settings.matchers.push((label, wanted.value));
        }
        Ok(settings)
    }
}

/// `prometheus.auth`, checked.
#[derive(Deserialize)]
#[serde(try_from = "AuthSection")]
struct Authentication(Auth);

/// Parses `prometheus.auth` from a flag.
pub(super) fn auth(text: &str) -> Result<Auth, String> {
    let read = yaml::first_document::<Option<Authentication>>(text);
    let (auth, _) = read.map_err(|fault| yaml::message(&fault.error).into_owned())?;
    auth.map(|Authentication(auth)| auth)
        .ok_or_else(|| "is empty: write '{sigv4: {}}'".to_owned())
}

/// `prometheus.auth`: one of these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AuthSection {
    bearer_token_file: Option<PathBuf>,
    basic: Option<Basic>,
    sigv4: Option<AwsSettings>,
    google: Option<GoogleSettings>,
    azure: Option<Azure>,
    oauth2: Option<OAuth2>,
}

/// `prometheus.auth.azure`: Azure Monitor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Azure {
    cloud: Option<Scalar<AzureCloud>>,
    client_id: Option<String>,
}

impl Choice for AzureCloud {
    const WORDS: Words<Self> = &[
        ("public", Self::Public),
        ("government", Self::Government),
        ("china", Self::China),
    ];
}

/// `prometheus.auth.oauth2`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OAuth2 {
    client_id: String,
    client_secret_file: PathBuf,
    token_url: Scalar<TokenUrl>,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    endpoint_params: BTreeMap<String, String>,
}

/// The address of a token endpoint.
struct TokenUrl;

impl Setting for TokenUrl {
    type Value = Url;

    fn parse(text: &str) -> Result<Self::Value, String> {
        parse_url(text).map_err(|_| "is no URL: write https://host/path".to_owned())
    }
}

/// `prometheus.auth.basic`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Basic {
    username: Scalar<Username>,
    password_file: PathBuf,
}

/// A user of basic authentication.
struct Username;

impl Setting for Username {
    type Value = String;

    fn parse(text: &str) -> Result<String, String> {
        match text.contains(':') {
            true => {
                Err("contains a colon, which HTTP forbids: write only the user name".to_owned())
            }
            false => Ok(text.to_owned()),
        }
    }
}

impl TryFrom<AuthSection> for Authentication {
    type Error = &'static str;

    fn try_from(section: AuthSection) -> Result<Self, Self::Error> {
        let external_id = |it: &AwsSettings| it.role_arn.is_none() && it.external_id.is_some();
        if section.sigv4.as_ref().is_some_and(external_id) {
            return Err("sigv4 has externalId without roleArn: name the role");
        }
        let mut methods = [
            section.bearer_token_file.map(Auth::BearerTokenFile),
            section.basic.map(Auth::from),
            section.sigv4.map(AuthMethod::SigV4).map(Auth::Cloud),
            section.google.map(AuthMethod::Google).map(Auth::Cloud),
            section.azure.map(Auth::from),
            section.oauth2.map(Auth::from),
        ]
        .into_iter()
        .flatten();
        match (methods.next(), methods.next()) {
            (Some(auth), None) => Ok(Self(auth)),
            (None, _) => Err(
                "is empty: write bearerTokenFile, basic, sigv4, google, azure or oauth2, or leave it out",
            ),
            (Some(_), Some(_)) => Err(
                "has more than one of bearerTokenFile, basic, sigv4, google, azure and oauth2: keep one of them",
            ),
        }
    }
}

impl From<Basic> for Auth {
    fn from(section: Basic) -> Self {
        Self::Basic {
            username: section.username.0.value,
            password: Password::File(section.password_file),
        }
    }
}

impl From<Azure> for Auth {
    fn from(section: Azure) -> Self {
        Self::Cloud(AuthMethod::Azure(AzureSettings {
            cloud: or(&section.cloud, AzureCloud::default()),
            client_id: section.client_id,
        }))
    }
}

impl From<OAuth2> for Auth {
    fn from(section: OAuth2) -> Self {
        Self::Cloud(AuthMethod::OAuth2(OAuth2Settings {
            client_id: section.client_id,
            client_secret_file: section.client_secret_file,
            token_url: section.token_url.0.value,
            scopes: section.scopes,
            endpoint_params: section.endpoint_params.into_iter().collect(),
        }))
    }
}

/// `prometheus.tls`, checked.
#[derive(Deserialize)]
#[serde(try_from = "TlsSection")]
struct Certificates(Tls);

/// `prometheus.tls`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TlsSection {
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
}

impl TryFrom<TlsSection> for Certificates {
    type Error = &'static str;

    fn try_from(section: TlsSection) -> Result<Self, Self::Error> {
        let client = match (section.cert_file, section.key_file) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(ClientPair {
                cert: Pem::File(cert),
                key: Pem::File(key),
            }),
            _ => return Err("has only one of certFile and keyFile: set both"),
        };
        Ok(Self(Tls {
            ca: section.ca_file.map(Pem::File),
            client,
            unverified: false,
        }))
    }
}
