//! From a document to a response: headers, gzip, indentation.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, HeaderName, RETRY_AFTER,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use uuid::Uuid;

use crate::core::time::Timestamp;

use super::documents::Tagged;
use super::forms::Shared;
use super::json;
use super::negotiate::{self, Format};
use super::status::{self, Failure};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// The longest Audit-Id that is echoed.
const MAX_AUDIT_ID: usize = 64;
/// Smaller bodies are not worth compressing (apiserver
/// `pkg/endpoints/handlers/responsewriters/writers.go`).
const GZIP_OVER: usize = 128 * 1024;

/// A year, in seconds.
const YEAR: i64 = 365 * 24 * 3600;

/// How the client wants its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) format: Format,
    pub(crate) pretty: bool,
    pub(crate) gzip: bool,
}

/// A success.
pub(crate) fn success(body: Bytes, manner: Manner) -> Response<Full<Bytes>> {
    let body = dress(body, manner);
    let media_type = manner.format.media_type();
    typed_gzip(media_type, body, manner.gzip)
}

/// A document that is the same for everybody.
pub(crate) fn listed(document: &Shared, manner: Manner) -> Response<Full<Bytes>> {
    shared(manner.format.media_type(), document, manner.gzip)
}

/// Compresses what is large, for those who take it.
fn typed_gzip(media_type: &'static str, body: Bytes, takes_gzip: bool) -> Response<Full<Bytes>> {
    let compressed = if takes_gzip { compress(&body) } else { None };
    coded(media_type, body, compressed)
}

/// The same for what is compressed once.
fn shared(media_type: &'static str, body: &Shared, takes_gzip: bool) -> Response<Full<Bytes>> {
    let compressed = if takes_gzip { body.compressed() } else { None };
    coded(media_type, body.plain().clone(), compressed.cloned())
}

fn coded(
    media_type: &'static str,
    body: Bytes,
    compressed: Option<Bytes>,
) -> Response<Full<Bytes>> {
    let is_compressed = compressed.is_some();
    let mut response = typed(StatusCode::OK, media_type, compressed.unwrap_or(body));
    if is_compressed {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// How long a client may keep a document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    /// It asks each time, with the tag.
    Ask,
    /// It may share it with others, and asks each time.
    Shared,
    /// The address holds the document's hash: a year from now on.
    Forever(Timestamp),
}

/// A document that clients keep, or 304 when the client has it.
pub(crate) fn kept(
    document: &Tagged,
    media_type: &'static str,
    keep: Keep,
    request: &HeaderMap,
) -> Response<Full<Bytes>> {
    let mut response = if document.is_known(request) {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let takes_gzip = negotiate::takes_gzip(request);
        shared(media_type, &document.body, takes_gzip)
    };
    let headers = response.headers_mut();
    vary_by_accept(headers);
    if let Some(etag) = document.etag() {
        headers.insert(ETAG, etag);
    }
    match keep {
        Keep::Ask => {}
        Keep::Shared => {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        }
        Keep::Forever(now) => {
            let forever = HeaderValue::from_static("public, immutable");
            headers.insert(CACHE_CONTROL, forever);
            if let Some(expires) = http_date(now.secs().saturating_add(YEAR)) {
                headers.insert(EXPIRES, expires);
            }
        }
    }
    response
}

/// Says that the answer depends on the Accept header.
pub(crate) fn vary_by_accept(headers: &mut HeaderMap) {
    headers.append(VARY, HeaderValue::from_static("Accept"));
}

/// A point in time as RFC 9110 §5.6.7 writes it.
fn http_date(secs: i64) -> Option<HeaderValue> {
    let at = jiff::Timestamp::from_second(secs).ok()?;
    let text = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    HeaderValue::try_from(text).ok()
}

/// A failure as a `Status`, never compressed.
pub(crate) fn failure(failure: Failure, manner: Manner) -> Response<Full<Bytes>> {
    let not_allowed = matches!(failure, Failure::MethodNotAllowed);
    let status = failure.status();
    tracing::debug!(
        code = status.code,
        reason = status.reason,
        message = status.message,
        "request refused"
    );
    let body = dress(status::encode(&status, manner.format).into(), manner);
    let code = status::code(&status);
    let mut response = typed(code, manner.format.media_type(), body);
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if not_allowed {
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

/// The headers every answer has.
pub(crate) fn finish(headers: &mut HeaderMap, audit_id: Option<HeaderValue>) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    if let Some(id) = audit_id {
        headers.insert(AUDIT_ID, id);
    }
}

/// By what name the answer is found in audit logs: the one the request came
/// with, or a fresh one.
pub(crate) fn audit_id(request: &HeaderMap) -> Option<HeaderValue> {
    let given = request.get(AUDIT_ID).filter(|id| is_audit_id(id));
    let fresh = || HeaderValue::try_from(Uuid::new_v4().to_string()).ok();
    given.cloned().or_else(fresh)
}

fn typed(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

fn dress(body: Bytes, manner: Manner) -> Bytes {
    match manner.format {
        Format::Json if manner.pretty => json::indent(&body).into(),
        Format::Json | Format::Protobuf => body,
    }
}

/// A body compressed, where that is worth it.
pub(crate) fn compress(body: &[u8]) -> Option<Bytes> {
    if body.len() <= GZIP_OVER {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::new(1));
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

fn is_audit_id(id: &HeaderValue) -> bool {
    !id.is_empty()
        && id.len() <= MAX_AUDIT_ID
        && id
            .as_bytes()
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// The manner for a client that wants JSON or whose wish is unknown.
pub(crate) fn plain_manner(headers: &HeaderMap) -> Manner {
    Manner {
        format: negotiate::format(headers).unwrap_or(Format::Json),
        pretty: negotiate::is_person(headers),
        gzip: negotiate::takes_gzip(headers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        let date = |secs| http_date(secs).unwrap().to_str().unwrap().to_owned();
        // The example of RFC 9110.
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(i64::MAX), None);
    }
}
