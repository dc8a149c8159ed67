//! Requests to issuers of secrets.

use std::path::Path;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;

use crate::error::{CloudAuthError, Issuer};
use crate::renewal::Issued;
use crate::sigv4::Keys;
use limits::file;

/// Timeout of one request to an issuer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer in bytes. No answer with a secret is longer.
const MOST_BYTES: usize = 256 << 10;

/// The most characters of an issuer's reason in an error.
const MOST_REASON: usize = 300;

/// What authenticates a request to a store.
pub(crate) enum Secret {
    /// A bearer token, as the value of `Authorization`.
    Token(HeaderValue),
    /// Keys that sign the request.
    Keys(Keys),
}

/// The clients for issuers. They follow no redirects, because a redirect could send a
/// secret to another host.
pub(crate) struct Http {
    /// For issuers on the node, never through a proxy.
    pub(crate) node: Client,
    /// For issuers on the internet, over HTTPS.
    pub(crate) internet: Client,
}

impl Http {
    pub(crate) fn new() -> Result<Self, CloudAuthError> {
        // reqwest uses the process's provider. A second installation has no effect.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let builder = || {
            Client::builder()
                .user_agent(concat!("gpu-metrics-apiserver/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .timeout(TIMEOUT)
        };
        let failed = |error: reqwest::Error| CloudAuthError::Client(error.to_string());
        let node = builder().no_proxy().tls_certs_only([]);
        Ok(Self {
            node: node.build().map_err(failed)?,
            internet: builder().build().map_err(failed)?,
        })
    }
}

pub(crate) fn form<'a>(
    client: &Client,
    url: Url,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish();
    let kind = "application/x-www-form-urlencoded";
    let request = client.post(url);
    request.header(header::CONTENT_TYPE, kind).body(body)
}

pub(crate) struct Answer {
    issuer: Issuer,
    address: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn failed(&self, reason: &str) -> CloudAuthError {
        CloudAuthError::Failed {
            issuer: self.issuer,
            address: self.address.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// Sends a request to an issuer. `secrets` are removed from the reason in the answer.
pub(crate) async fn ask(
    issuer: Issuer,
    request: RequestBuilder,
    secrets: &[&str],
) -> Result<Answer, CloudAuthError> {
    let (client, request) = request.build_split();
    let no_request = |error: reqwest::Error| CloudAuthError::Client(error.to_string());
    let request = request.map_err(no_request)?;
    let mut answer = Answer {
        issuer,
        address: address(request.url()),
        text: String::new(),
    };
    let unanswered = |error| answer.failed(&format!("does not answer: {}", reason_of(&error)));
    let mut response = client.execute(request).await.map_err(unanswered)?;
    let status = response.status();
    let mut body = Vec::new();
    loop {
        let Some(chunk) = response.chunk().await.map_err(unanswered)? else {
            break;
        };
        body.extend_from_slice(&chunk);
        if body.len() > MOST_BYTES {
            return Err(answer.failed("its answer is too long"));
        }
    }
    answer.text = String::from_utf8_lossy(&body).into_owned();
    if status == StatusCode::OK {
        return Ok(answer);
    }
    Err(CloudAuthError::Refused {
        issuer,
        status: status.as_u16(),
        text: stated_reason(&answer.text, secrets),
        address: answer.address,
    })
}

/// The address without its parameters, for messages.
fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

/// The innermost cause, because the outer ones repeat the address.
fn reason_of(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", TIMEOUT.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The reason in an error's body: `error` and `error_description` of OAuth 2.0, `error` of
/// Google's APIs, or `Code` and `Message` of Amazon.
fn stated_reason(body: &str, secrets: &[&str]) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let words = |at: &str| json.pointer(at).and_then(serde_json::Value::as_str);
    let json = ["/error", "/error_description", "/error/message", "/message"];
    let mut parts: Vec<&str> = json.iter().filter_map(|at| words(at)).collect();
    parts.extend(
        ["Code", "Message"]
            .iter()
            .filter_map(|name| element(body, name)),
    );
    let mut text: String = parts.iter().map(|part| format!(": {part}")).collect();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "***");
    }
    text.retain(|c| !c.is_control());
    text.chars().take(MOST_REASON).collect()
}

/// The text of the first XML element of this name that has no attributes.
pub(crate) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    Some(value.trim())
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    /// Seconds. The Azure Instance Metadata Service writes them as a string.
    #[serde(default)]
    expires_in: serde_json::Value,
}

/// Requests an access token from a token endpoint. A token without an expiry time counts as
/// valid for an hour, as the clouds' tokens are.
pub(crate) async fn access_token(
    issuer: Issuer,
    request: RequestBuilder,
    (secrets, now): (&[&str], SystemTime),
) -> Result<Issued<Secret>, CloudAuthError> {
    let said = ask(issuer, request, secrets).await?;
    let answer: TokenAnswer = serde_json::from_str(&said.text)
        .map_err(|_| said.failed("its answer is no JSON object with access_token"))?;
    let life = match &answer.expires_in {
        serde_json::Value::Number(seconds) => seconds.as_u64(),
        serde_json::Value::String(seconds) => seconds.parse().ok(),
        _ => None,
    };
    let end = now.checked_add(Duration::from_secs(life.unwrap_or(3600)));
    bearer(&answer.access_token, end)
        .filter(|issued| issued.end.is_none_or(|end| now < end))
        .ok_or_else(|| said.failed("its token has expired, or cannot be sent in a header"))
}

/// A bearer token as a secret. `None`: it is no valid header value.
pub(crate) fn bearer(token: &str, end: Option<SystemTime>) -> Option<Issued<Secret>> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    let secret = Secret::Token(value);
    Some(Issued { secret, end })
}

/// Parses a time such as `2026-11-26T01:00:00Z`.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

/// Reads a file with one secret. The content is not cached, because the platform rotates it.
pub(crate) async fn read(path: &Path) -> Result<String, CloudAuthError> {
    let read = file::secret(path).await;
    read.map_err(|reason| CloudAuthError::File(path.to_owned(), reason))
}
