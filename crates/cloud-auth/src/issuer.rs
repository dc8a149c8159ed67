//! Issuers of credentials: where they are, requests to them, and their answers.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use reqwest::{Client, RequestBuilder, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::authenticator::Credential;
use crate::renewal::Issued;
use apimachinery::letters::{escaped, masked, shortened};

/// The environment: the value of a variable.
pub type Variables = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer in bytes. No answer with a secret is longer.
const MOST_BYTES: usize = 256 << 10;

/// The most bytes of a refusal's text in an error.
const MOST_TEXT: usize = 300;

/// The lifetime of a secret whose issuer does not state one, as the clouds' tokens have it.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3600);

/// Why a request cannot be authenticated, and the remedy. The text contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CloudAuthError {
    pub(crate) text: String,
    /// The HTTP status of an issuer's refusal.
    pub(crate) status: Option<u16>,
}

impl CloudAuthError {
    /// A fault of a file, an environment variable or an issuer.
    pub(crate) fn new(place: impl Display, fault: impl Display) -> Self {
        let text = format!("{place}: {fault}");
        Self { text, status: None }
    }
}

/// Reads a file with one secret. The content is not cached, because the platform rotates it.
pub(crate) async fn read(path: impl AsRef<Path>) -> Result<SecretString, CloudAuthError> {
    let path = path.as_ref();
    let read = limits::file::secret(path).await;
    read.map_err(|fault| CloudAuthError::new(path.display(), fault))
}

/// The environment, and clients for issuers. The clients follow no redirects, because a
/// redirect could send a secret to another host.
pub(crate) struct Platform {
    variables: Variables,
    /// For issuers on the node, never through a proxy.
    pub(crate) node: Client,
    /// For issuers on the internet.
    pub(crate) internet: Client,
}

impl Platform {
    pub(crate) fn new(variables: Variables) -> Result<Self, CloudAuthError> {
        // reqwest uses the process's provider. A second installation has no effect.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let agent = concat!("gpu-metrics-apiserver/", env!("CARGO_PKG_VERSION"));
        let builder = || {
            let builder = Client::builder().user_agent(agent).timeout(TIMEOUT);
            builder.redirect(reqwest::redirect::Policy::none())
        };
        let node = builder().no_proxy().tls_certs_only([]);
        let failed = |error| CloudAuthError::new("no client for HTTPS", error);
        Ok(Self {
            variables,
            node: node.build().map_err(failed)?,
            internet: builder().build().map_err(failed)?,
        })
    }

    /// An environment variable; an empty one counts as unset.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.variables)(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn require(&self, name: &str) -> Result<String, CloudAuthError> {
        let unset = || CloudAuthError::new(name, "this environment variable is not set");
        self.variable(name).ok_or_else(unset)
    }

    /// A path below the address in a variable, or else below `default`.
    pub(crate) fn url(&self, name: &str, default: &str, path: &str) -> Result<Url, CloudAuthError> {
        let base = self.variable(name);
        let base = base.as_deref().unwrap_or(default).trim_end_matches('/');
        let url = Url::parse(&format!("{base}/{path}"));
        url.map_err(|_| CloudAuthError::new(name, "this environment variable is no URL"))
    }

    /// A form for an issuer on the internet.
    pub(crate) fn form(&self, url: Url, pairs: &[(&str, &str)]) -> RequestBuilder {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(pairs);
        let kind = "application/x-www-form-urlencoded";
        let request = self.internet.post(url).header(header::CONTENT_TYPE, kind);
        request.body(body.finish())
    }
}

/// Sends a request to an issuer, which may repeat the `secrets` in its answer.
pub(crate) async fn ask(
    request: RequestBuilder,
    secrets: &[&SecretString],
) -> Result<Answer, CloudAuthError> {
    let (client, request) = request.build_split();
    let request = request.map_err(|error| CloudAuthError::new("no request to an issuer", error))?;
    let mut address = request.url().clone();
    address.set_query(None);
    let unanswered = |error: reqwest::Error| {
        // The outer errors repeat the address.
        let mut cause: &dyn Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        CloudAuthError::new(&address, format!("does not answer: {cause}"))
    };
    let mut response = client.execute(request).await.map_err(unanswered)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
        body.extend_from_slice(&chunk);
        if body.len() > MOST_BYTES {
            return Err(CloudAuthError::new(&address, "its answer is too long"));
        }
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    if response.status() == StatusCode::OK {
        let json = serde_json::from_str(&text).unwrap_or_default();
        return Ok(Answer {
            address,
            text,
            json,
        });
    }
    let secrets = secrets.iter().map(|secret| secret.expose_secret());
    let text = masked(text.trim(), secrets);
    let text = shortened(&escaped(&text), MOST_TEXT).into_owned();
    let status = response.status().as_u16();
    Err(CloudAuthError {
        status: Some(status),
        text: format!("{address}: HTTP {status}: {text}"),
    })
}

/// The answer of an issuer: a JSON object, or XML.
pub(crate) struct Answer {
    address: Url,
    pub(crate) text: String,
    json: Value,
}

impl Answer {
    /// A text of the object, or that of the first XML element with this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let in_json = self.json.get(name).and_then(Value::as_str);
        let field = in_json.or_else(|| {
            let (_, rest) = self.text.split_once(&format!("<{name}>"))?;
            Some(rest.split_once(&format!("</{name}>"))?.0.trim())
        });
        field.filter(|value| !value.is_empty())
    }

    /// A bearer token of OAuth 2.0.
    pub(crate) fn token(&self) -> Result<Issued, CloudAuthError> {
        let token = self.field("access_token");
        let token = token.ok_or_else(|| self.invalid("has no access token"))?;
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| self.invalid("has a token that cannot be sent in a header"))?;
        value.set_sensitive(true);
        self.issued(Credential::Token(value))
    }

    /// A credential of this answer, with its end.
    pub(crate) fn issued(&self, credential: Credential) -> Result<Issued, CloudAuthError> {
        let now = SystemTime::now();
        let end = match self.field("Expiration") {
            Some(time) => time.parse::<Timestamp>().ok().map(SystemTime::from),
            None => {
                // The Azure Instance Metadata Service writes the seconds as a string.
                let seconds = self.field("expires_in").and_then(|it| it.parse().ok());
                let seconds = seconds.or_else(|| self.json.get("expires_in")?.as_u64());
                now.checked_add(seconds.map_or(LIFETIME, Duration::from_secs))
            }
        };
        let end = end.filter(|end| *end > now);
        let end = end.ok_or_else(|| self.invalid("has expired: check the node's clock"))?;
        Ok(Issued { credential, end })
    }

    pub(crate) fn invalid(&self, fault: &str) -> CloudAuthError {
        CloudAuthError::new(&self.address, format!("its answer {fault}"))
    }
}
