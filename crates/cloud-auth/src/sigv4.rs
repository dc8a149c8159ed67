//! AWS Signature Version 4 (Amazon's "Create a signed AWS API request"), checked against
//! the cases of `aws-c-auth`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use aws_lc_rs::{digest, hmac};
use http::HeaderValue;
use jiff::Timestamp;
use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode,
};
use reqwest::Request;
use secrecy::{ExposeSecret as _, SecretString};
use url::Position;

/// The characters that Amazon percent-encodes in a name or a value.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const ENCODED_IN_PATH: &AsciiSet = &ENCODED.remove(b'/');

#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: SecretString,
    /// The session token of temporary keys, or empty.
    pub(crate) token: SecretString,
}

/// What a signature covers.
pub(crate) struct Signed<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    /// In the format `20260126T010000Z`.
    pub(crate) time: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: &'a [u8],
}

/// Signs a request: adds `x-amz-date`, `x-amz-security-token` and `Authorization`. The signature
/// covers these headers, `host` and `content-type` only, because a proxy may change others.
pub(crate) fn sign(
    request: &mut Request,
    keys: &Keys,
    region: &str,
    service: &str,
    now: SystemTime,
) {
    // Amazon reads a plus in a query as a plus, but form encoding writes a space as one.
    if let Some(query) = request.url().query().map(|query| query.replace('+', "%20")) {
        request.url_mut().set_query(Some(&query));
    }
    let now = Timestamp::try_from(now).unwrap_or_default();
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    add(request, "x-amz-date", &time);
    add(request, "x-amz-security-token", keys.token.expose_secret());
    let url = request.url();
    let names = ["content-type", "x-amz-date", "x-amz-security-token"];
    let headers = names.into_iter().filter_map(|name| {
        let value = request.headers().get(name)?.to_str().ok()?;
        Some((name.to_owned(), value.to_owned()))
    });
    let host = url[Position::BeforeHost..Position::AfterPort].to_owned();
    let body = request.body().and_then(reqwest::Body::as_bytes);
    let signed = Signed {
        region,
        service,
        time: &time,
        method: request.method().as_str(),
        path: url.path(),
        query: url.query().unwrap_or_default(),
        headers: headers.chain([("host".to_owned(), host)]).collect(),
        body: body.unwrap_or_default(),
    };
    let authorization = signed.authorization(keys);
    add(request, "authorization", &authorization);
}

/// Adds a header if it has a value. One that cannot be sent is left out, and Amazon refuses the
/// request.
fn add(request: &mut Request, name: &'static str, text: &str) {
    let value = HeaderValue::try_from(text).ok();
    if let Some(mut value) = value.filter(|value| !value.is_empty()) {
        value.set_sensitive(name != "x-amz-date");
        request.headers_mut().insert(name, value);
    }
}

impl Signed<'_> {
    /// The value of the header `Authorization`.
    pub(crate) fn authorization(&self, keys: &Keys) -> String {
        let (time, date) = (self.time, self.time.split('T').next().unwrap_or_default());
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let names: Vec<&str> = self.headers.keys().map(String::as_str).collect();
        let names = names.join(";");
        let request = sha256(self.canonical_request(&names).as_bytes());
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{request}");
        let mut key = format!("AWS4{}", keys.secret.expose_secret()).into_bytes();
        for part in [date, self.region, self.service, "aws4_request", &to_sign] {
            let by_key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&by_key, part.as_bytes()).as_ref().to_vec();
        }
        let (id, signature) = (&keys.id, hex::encode(key));
        format!(
            "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
    }

    fn canonical_request(&self, names: &str) -> String {
        let encoded = |text: &str| {
            let decoded: Vec<u8> = percent_decode_str(text).collect();
            percent_encode(&decoded, ENCODED).to_string()
        };
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let pairs = pairs.map(|(name, value)| [name, value].map(encoded));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        let pairs: Vec<String> = pairs.iter().map(|pair| pair.join("=")).collect();
        let line = |(name, value)| format!("{name}:{value}\n");
        let headers: String = self.headers.iter().map(line).collect();
        format!(
            "{}\n{}\n{}\n{headers}\n{names}\n{}",
            self.method,
            // Encoded once more than in the request, as all services except S3 require.
            utf8_percent_encode(self.path, ENCODED_IN_PATH),
            pairs.join("&"),
            sha256(self.body),
        )
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}
