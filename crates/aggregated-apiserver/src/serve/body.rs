//! The body of a request, which is discarded, and the body of a response.

use bytes::{Buf, Bytes};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};

use super::activity::InProgress;
use super::limits::Limits;
use crate::security::InFlightPermit;

/// The most bytes of a request's target. hyper rejects more than 65534 bytes itself, with a
/// response without a body (hyper `src/proto/h1/role.rs`).
const MAX_TARGET: usize = 32 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestRejection {
    /// The request is refused with this code, for this reason.
    Refused(StatusCode, &'static str),
    /// The client cancelled the request, or disconnected.
    Cancelled,
}

/// Receives a request's body and discards it.
pub(super) async fn receive(
    request: Request<Incoming>,
    limits: &Limits,
) -> Result<Request<()>, RequestRejection> {
    let refused = |code, why| Err(RequestRejection::Refused(code, why));
    let too_large = RequestRejection::Refused(
        StatusCode::PAYLOAD_TOO_LARGE,
        "requests must not have a body",
    );
    let slow = RequestRejection::Refused(
        StatusCode::REQUEST_TIMEOUT,
        "the request did not arrive in time",
    );
    // With both `Content-Length` and `Transfer-Encoding`, two programs may disagree about
    // the start of the next request. hyper's parser drops one of the two headers. So every
    // chunked body is refused: no request needs one.
    if request.headers().contains_key(header::TRANSFER_ENCODING) {
        return refused(
            StatusCode::BAD_REQUEST,
            "the request's framing is ambiguous",
        );
    }
    let (parts, mut body) = request.into_parts();
    let target = parts.uri.path_and_query();
    if target.is_some_and(|target| target.as_str().len() > MAX_TARGET) {
        return refused(
            StatusCode::URI_TOO_LONG,
            "the request's path and query are too long",
        );
    }
    if body.size_hint().lower() > limits.body {
        return Err(too_large);
    }
    let read = async {
        let mut left = limits.body;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| RequestRejection::Cancelled)?;
            let len = frame.data_ref().map_or(0, Bytes::len) as u64;
            left = left.checked_sub(len).ok_or(too_large)?;
        }
        Ok(())
    };
    let read = tokio::time::timeout(limits.read, read);
    read.await.map_err(|_| slow)??;
    Ok(Request::from_parts(parts, ()))
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
