//! Turns a document or a refusal into a response.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use uuid::Uuid;

use super::documents::Document;
use super::negotiate::Encoding;
use super::{encode, status};
use crate::refusal::Refusal;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const MAX_AUDIT_ID: usize = 64;

/// A response with code 200.
pub fn success(body: Bytes, media_type: &'static str) -> Response<Full<Bytes>> {
    typed(StatusCode::OK, media_type, body)
}

/// A response with a document that clients revalidate by its tag, or 304 if the client has it.
pub(super) fn document(document: &Document, request: &HeaderMap) -> Response<Full<Bytes>> {
    let mut response = if document.is_known(request) {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        success(document.body.clone(), document.media_type)
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("Accept"));
    if let Some(etag) = document.etag() {
        headers.insert(ETAG, etag);
    }
    response
}

/// The response to a refused request: a `Status`. Its extensions have the refusal, for the audit.
pub fn refused(refusal: &Refusal, encoding: Encoding) -> Response<Full<Bytes>> {
    let (code, status) = status::status(refusal);
    tracing::debug!(
        code = code.as_u16(),
        reason = status.reason,
        message = status.message,
        "request refused"
    );
    let body = encode::object(encoding, "v1", "Status", &status);
    let mut response = typed(code, encoding.media_type(), body.into());
    if code == StatusCode::TOO_MANY_REQUESTS {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if *refusal == Refusal::MethodNotAllowed {
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response.extensions_mut().insert(refusal.clone());
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

/// A response with this code and media type.
pub fn typed(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

fn is_audit_id(id: &HeaderValue) -> bool {
    !id.is_empty()
        && id.len() <= MAX_AUDIT_ID
        && id
            .as_bytes()
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// The response to a request that is refused before the layers.
pub(crate) fn refused_early(refusal: &Refusal) -> Response<Full<Bytes>> {
    let mut response = refused(refusal, Encoding::Json);
    finish(response.headers_mut(), audit_id(&HeaderMap::new()));
    response
}
