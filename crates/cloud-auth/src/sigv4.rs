//! AWS Signature Version 4 (Amazon's "Create a signed AWS API request"), checked against
//! the cases of `aws-c-auth`.

use std::fmt::Write as _;
use std::time::SystemTime;

use aws_lc_rs::{digest, hmac};
use http::{HeaderValue, header};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::Request;

/// The characters that Amazon percent-encodes in a name or a value.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const ENCODED_IN_PATH: &AsciiSet = &ENCODED.remove(b'/');

/// Keys of an account or a role.
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: String,
    /// The session token of temporary keys.
    pub(crate) token: Option<String>,
}

/// The region, service and time for which a signature is valid.
pub(crate) struct Scope<'a> {
    region: &'a str,
    service: &'a str,
    /// In the format `20260126T010000Z`.
    time: String,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(region: &'a str, service: &'a str, now: SystemTime) -> Self {
        let now = Timestamp::try_from(now).unwrap_or_default();
        Self {
            region,
            service,
            time: now.strftime("%Y%m%dT%H%M%SZ").to_string(),
        }
    }

    fn date(&self) -> &str {
        self.time.split('T').next().unwrap_or_default()
    }

    fn text(&self) -> String {
        let Self {
            region, service, ..
        } = self;
        format!("{}/{region}/{service}/aws4_request", self.date())
    }
}

/// The parts of a request that are signed.
pub(crate) struct Parts<'a> {
    pub(crate) method: &'a str,
    /// The path, encoded once more than in the request. All services except S3 require that.
    pub(crate) path: String,
    pub(crate) query: &'a str,
    /// Lower-case names with their values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: &'a [u8],
}

/// Signs a request: adds `x-amz-date`, `x-amz-security-token` and `Authorization`. The signature
/// covers these headers, `host` and `content-type` only, because a proxy may change others.
pub(crate) fn sign(request: &mut Request, keys: &Keys, scope: &Scope<'_>) {
    // Amazon reads a plus in a query as a plus, but form encoding writes a space as one.
    if let Some(query) = request.url().query().map(|query| query.replace('+', "%20")) {
        request.url_mut().set_query(Some(&query));
    }
    let url = request.url();
    let host = match (url.host_str().unwrap_or_default(), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    let mut headers = vec![
        ("host".to_owned(), host),
        ("x-amz-date".to_owned(), scope.time.clone()),
    ];
    let kind = request.headers().get(header::CONTENT_TYPE);
    if let Some(kind) = kind.and_then(|kind| kind.to_str().ok()) {
        headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    if let Some(token) = &keys.token {
        headers.push(("x-amz-security-token".to_owned(), token.clone()));
    }
    let body = request.body().and_then(reqwest::Body::as_bytes);
    let parts = Parts {
        method: request.method().as_str(),
        path: encoded_path(url.path()),
        query: url.query().unwrap_or_default(),
        headers,
        body: body.unwrap_or_default(),
    };
    let signature = authorization(parts, keys, scope);
    let added = [
        ("x-amz-date", Some(scope.time.clone())),
        ("x-amz-security-token", keys.token.clone()),
        ("authorization", Some(signature)),
    ];
    for (name, text) in added {
        // If a token is no valid header value, the request is sent without it, and Amazon
        // refuses the request.
        let value = text.and_then(|text| HeaderValue::try_from(text).ok());
        if let Some(mut value) = value {
            value.set_sensitive(name != "x-amz-date");
            request.headers_mut().insert(name, value);
        }
    }
}

pub(crate) fn authorization(mut parts: Parts<'_>, keys: &Keys, scope: &Scope<'_>) -> String {
    parts.headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (canonical, signed) = canonical_request(&parts);
    let (time, scope_text) = (&scope.time, scope.text());
    let hash = sha256(canonical.as_bytes());
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope_text}\n{hash}");
    let mut key = format!("AWS4{}", keys.secret).into_bytes();
    for part in [scope.date(), scope.region, scope.service, "aws4_request"] {
        key = hmac_of(&key, part);
    }
    let signature = hex(&hmac_of(&key, &to_sign));
    let id = &keys.id;
    format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope_text}, SignedHeaders={signed}, Signature={signature}"
    )
}

/// The canonical request, and the names of the signed headers. `parts` has its headers
/// sorted.
fn canonical_request(parts: &Parts<'_>) -> (String, String) {
    let names: Vec<&str> = parts.headers.iter().map(|(name, _)| &**name).collect();
    let signed = names.join(";");
    let mut text = format!("{}\n{}\n", parts.method, parts.path);
    text += &canonical_query(parts.query);
    text.push('\n');
    for (name, value) in &parts.headers {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    let body = sha256(parts.body);
    let _ = write!(text, "\n{signed}\n{body}");
    (text, signed)
}

pub(crate) fn encoded_path(path: &str) -> String {
    utf8_percent_encode(path, ENCODED_IN_PATH).to_string()
}

fn canonical_query(query: &str) -> String {
    let encoded = |text: &str| {
        let decoded: Vec<u8> = percent_decode_str(text).collect();
        percent_encoding::percent_encode(&decoded, ENCODED).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encoded(name), encoded(value)))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

fn hmac_of(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// The SHA-256 of some bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
