//! The body of a request, which is discarded, and the body of a response.

use bytes::{Buf, Bytes};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};

use super::activity::InProgress;
use super::limits::Limits;
use crate::security::InFlightPermit;

/// Why a request is refused: the code of the response, and its message.
pub(super) type Refusal = (StatusCode, &'static str);

const TOO_LARGE: Refusal = (
    StatusCode::PAYLOAD_TOO_LARGE,
    "requests must not have a body",
);

/// Receives a request's body and discards it.
pub(super) async fn receive(
    request: Request<Incoming>,
    limits: &Limits,
) -> Result<Request<()>, Refusal> {
    // With both `Content-Length` and `Transfer-Encoding`, two programs may disagree about
    // the start of the next request. hyper's parser drops one of the two headers. So every
    // chunked body is refused: no request needs one.
    if request.headers().contains_key(header::TRANSFER_ENCODING) {
        let message = "the request's framing is ambiguous";
        return Err((StatusCode::BAD_REQUEST, message));
    }
    let (parts, body) = request.into_parts();
    if body.size_hint().lower() > limits.body as u64 {
        return Err(TOO_LARGE);
    }
    let body = Limited::new(body, limits.body).collect();
    match tokio::time::timeout(limits.read, body).await {
        Ok(Ok(_)) => Ok(Request::from_parts(parts, ())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(TOO_LARGE),
        Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the request's body broke off")),
        Err(_) => {
            let message = "the request did not arrive in time";
            Err((StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

/// The bytes of a response until they are written.
///
/// hyper drops a body after it has read all bytes, but h2 keeps the bytes until the client
/// can receive them. This type therefore also holds the values that must live until then:
/// the request's permit, and its entry in the connection's activity.
#[derive(Debug)]
pub(super) struct Unwritten {
    bytes: Bytes,
    request: InProgress,
    _permit: Option<InFlightPermit>,
}

impl Unwritten {
    /// A response, with the permit that the security layers added to its extensions.
    pub(super) fn answer(
        mut response: Response<Full<Bytes>>,
        request: InProgress,
    ) -> Response<Full<Self>> {
        let permit = response.extensions_mut().remove();
        response.map(|body| {
            let bytes = body.into_inner().unwrap_or_default();
            Full::new(Self {
                bytes,
                request,
                _permit: permit,
            })
        })
    }
}

impl Buf for Unwritten {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.request.taken();
    }
}
