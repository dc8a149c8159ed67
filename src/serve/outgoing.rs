//! An answer's body on its way: what it holds is known until the transport has
//! taken the last of it.
//!
//! A client decides when it takes an answer, and may never. hyper keeps a body
//! until the stream has room for one byte, h2 the rest of it until the
//! connection has; both let go of it at the end of the stream or the
//! connection. So the body's bytes themselves carry the account ([`Owed`]).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::Response;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use super::places::{Owed, Place};

/// The body of an answer.
#[derive(Debug)]
pub(super) struct Outgoing {
    body: Full<Bytes>,
    owed: Option<Owed>,
}

/// The bytes of a body, with their account.
#[derive(Debug)]
pub(super) struct Parcel {
    bytes: Bytes,
    owed: Option<Owed>,
}

/// Puts an answer on the account of its connection.
pub(super) fn send(
    response: Response<Full<Bytes>>,
    place: &std::sync::Arc<Place>,
) -> Response<Outgoing> {
    response.map(|body| {
        let size = body.size_hint().exact().unwrap_or_default();
        let owed = Some(place.owe(usize::try_from(size).unwrap_or(usize::MAX)));
        Outgoing { body, owed }
    })
}

impl Body for Outgoing {
    type Data = Parcel;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Parcel>, Infallible>>> {
        let Self { body, owed } = self.get_mut();
        let frame = Pin::new(body).poll_frame(context);
        frame.map_ok(|frame| {
            frame.map_data(|bytes| Parcel {
                bytes,
                owed: owed.take(),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for Parcel {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(owed) = &mut self.owed {
            owed.moved(self.bytes.is_empty());
        }
    }
}
