//! The body of a response.

use bytes::{Buf, Bytes};
use http::Response;
use http_body_util::Full;

use super::activity::InProgress;
use crate::security::InFlightPermit;

/// The bytes of a response until they are written.
///
/// hyper drops a body after it has read all bytes, but h2 keeps the bytes until the client
/// can receive them. This type therefore also holds the values that must live until then:
/// the request's permit, and its entry in the connection's activity.
#[derive(Debug)]
pub(super) struct Unwritten {
    bytes: Bytes,
    request: InProgress,
    _permit: InFlightPermit,
}

impl Unwritten {
    /// A response, with the permit that the security layers added to its extensions.
    pub(super) fn response(
        mut response: Response<Full<Bytes>>,
        request: InProgress,
    ) -> Response<Full<Self>> {
        let permit = response.extensions_mut().remove().flatten();
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
