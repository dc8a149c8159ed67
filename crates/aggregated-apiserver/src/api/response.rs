//! Turns a document into a response: headers, gzip, indentation.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use uuid::Uuid;

use super::documents::{EncodedDocument, Tagged, compress};
use super::negotiate::{Format, ResponseForm, takes_gzip};
use super::status::RequestFailure;
use super::{json, object};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const MAX_AUDIT_ID: usize = 64;

/// Marks a response whose reason is already in the log, once for all such responses.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlreadyLogged;

/// A response with code 200.
pub fn success(body: Bytes, form: ResponseForm) -> Response<Full<Bytes>> {
    let body = dress(body, form);
    let compressed = form.gzip.then(|| compress(&body)).flatten();
    ok(form.format.media_type(), body, compressed)
}

/// A response with a document that is the same for all clients. It is compressed once, for
/// clients that accept gzip.
pub fn shared(
    media_type: &'static str,
    document: &EncodedDocument,
    takes_gzip: bool,
) -> Response<Full<Bytes>> {
    let compressed = takes_gzip.then(|| document.compressed()).flatten();
    ok(media_type, document.plain().clone(), compressed.cloned())
}

fn ok(media_type: &'static str, body: Bytes, compressed: Option<Bytes>) -> Response<Full<Bytes>> {
    let Some(compressed) = compressed else {
        return typed(StatusCode::OK, media_type, body);
    };
    let mut response = typed(StatusCode::OK, media_type, compressed);
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// How long a client may cache a document.
#[derive(Clone, Copy, Debug)]
pub enum CachePolicy {
    /// The client revalidates it each time, with the tag.
    Revalidate,
    /// Caches may share it between clients, and revalidate it each time.
    PublicRevalidate,
    /// The URL contains the document's hash: cached for a year.
    Immutable,
}

/// A response with a document that clients cache, or 304 if the client has it.
pub fn kept(
    document: &Tagged,
    media_type: &'static str,
    keep: CachePolicy,
    request: &HeaderMap,
) -> Response<Full<Bytes>> {
    let mut response = if document.is_known(request) {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        shared(media_type, &document.body, takes_gzip(request))
    };
    let headers = response.headers_mut();
    vary_by_accept(headers);
    if let Some(etag) = document.etag() {
        headers.insert(ETAG, etag);
    }
    let keep = match keep {
        CachePolicy::Revalidate => return response,
        CachePolicy::PublicRevalidate => "public",
        CachePolicy::Immutable => "public, immutable, max-age=31536000",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    response
}

/// Adds `Vary: Accept`.
pub fn vary_by_accept(headers: &mut HeaderMap) {
    headers.append(VARY, HeaderValue::from_static("Accept"));
}

/// A response with a failure as a `Status`. It is never compressed.
pub fn failure(failure: RequestFailure, form: ResponseForm) -> Response<Full<Bytes>> {
    let not_allowed = matches!(failure, RequestFailure::MethodNotAllowed);
    let is_told = matches!(failure, RequestFailure::Unlisted(_));
    let (code, status) = failure.status();
    tracing::debug!(
        code = code.as_u16(),
        reason = status.reason,
        message = status.message,
        "request refused"
    );
    let body = object::encode(form.format, "Status", &status).into();
    let mut response = typed(code, form.format.media_type(), dress(body, form));
    if code == StatusCode::TOO_MANY_REQUESTS {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if is_told {
        response.extensions_mut().insert(AlreadyLogged);
    }
    if not_allowed {
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

/// Sets the headers that every response has.
pub fn finish(headers: &mut HeaderMap, audit_id: Option<HeaderValue>) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    if let Some(id) = audit_id {
        headers.insert(AUDIT_ID, id);
    }
}

/// The Audit-Id of the response: the one of the request if valid, or a new one.
pub(super) fn audit_id(request: &HeaderMap) -> Option<HeaderValue> {
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

fn dress(body: Bytes, form: ResponseForm) -> Bytes {
    match form.format {
        Format::Json if form.pretty => json::indent(&body).into(),
        Format::Json | Format::Protobuf => body,
    }
}

fn is_audit_id(id: &HeaderValue) -> bool {
    !id.is_empty()
        && id.len() <= MAX_AUDIT_ID
        && id
            .as_bytes()
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

pub(crate) fn refusal(refused: RequestFailure) -> Response<Full<Bytes>> {
    let headers = HeaderMap::new();
    let mut response = failure(refused, ResponseForm::of(&headers));
    finish(response.headers_mut(), audit_id(&headers));
    response
}
