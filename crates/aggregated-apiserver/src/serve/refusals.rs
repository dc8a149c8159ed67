//! Logs each request that the listener refuses before it reaches the service, which logs
//! its own refusals.
//!
//! Clients can cause such lines cheaply, so their rate is limited; those left out are
//! counted.
//!
//! Some refusals cannot have a line, because the library that speaks HTTP/2
//! makes them and does not report them (h2 `src/proto/streams/recv.rs`): 431 for a head
//! that is too large, and resets of streams whose head is malformed. Those of
//! HTTP/1.1 (400, 414, 431) end their connection with an error, which has one.

use std::error::Error;
use std::net::SocketAddr;

use http::StatusCode;

use limits::line_limit::{LineLimit, SECOND};

const MOST_LINES: u64 = 50;

#[derive(Clone, Debug)]
pub(super) struct Refusals(LineLimit<()>);

impl Default for Refusals {
    fn default() -> Self {
        Self(LineLimit::new(MOST_LINES, SECOND, |(), left_out| {
            tracing::info!(left_out, "more requests refused for the same reasons");
        }))
    }
}

impl Refusals {
    pub(super) fn answered(&self, code: StatusCode, why: &str, from: SocketAddr) {
        if self.0.admit(()) {
            let code = code.as_u16();
            tracing::info!(code, verdict = "malformed", %from, detail = why, "request refused");
        }
    }

    /// Logs a connection that ended with an error. An error of HTTP/1.1's parser means
    /// that the input was no request and was answered with 400, 414 or 431.
    pub(super) fn ended(&self, error: &(dyn Error + 'static), from: SocketAddr) {
        let parsing = error.downcast_ref::<hyper::Error>();
        if parsing.is_some_and(hyper::Error::is_parse) && self.0.admit(()) {
            tracing::info!(verdict = "malformed", %from, detail = %error, "request refused");
        }
        tracing::debug!(%from, %error, "connection ended");
    }
}
