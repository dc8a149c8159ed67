//! One line for each request that was refused here, before it reached the
//! service, which writes lines of its own.
//!
//! Lines are cheap to cause, so that only so many are written a second; the
//! others are counted.
//!
//! Some refusals cannot have a line, because the library that speaks HTTP/2
//! makes them and tells nobody (h2 `src/proto/streams/recv.rs`): 431 for a head
//! that is too large, and resets of streams whose head is malformed. Those of
//! HTTP/1.1 (400, 414, 431) end their connection with an error, which has one.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

/// Lines within [`SPAN`].
const MOST_LINES: u32 = 50;
const SPAN: Duration = Duration::from_secs(1);

/// Writes the lines of one listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<Mutex<Count>>);

/// Refusals within the span that runs, if one does.
#[derive(Debug, Default)]
struct Count {
    runs: bool,
    count: u32,
}

impl Refusals {
    /// A request was answered with this code.
    pub(super) fn answered(&self, code: StatusCode, why: &str, from: SocketAddr) {
        if self.admit() {
            let code = code.as_u16();
            tracing::info!(code, verdict = "malformed", %from, detail = why, "request refused");
        }
    }

    /// A connection ended with an error. One of HTTP/1.1's parser means that
    /// what came was no request, and that the client was told so (400, 414 or
    /// 431).
    pub(super) fn ended(&self, error: &(dyn Error + 'static), from: SocketAddr) {
        let parsing = error.downcast_ref::<hyper::Error>();
        if parsing.is_some_and(hyper::Error::is_parse) && self.admit() {
            tracing::info!(verdict = "malformed", %from, detail = %error, "request refused");
        }
        tracing::debug!(%from, %error, "connection ended");
    }

    /// Whether a line may be written; begins a span if none runs.
    fn admit(&self) -> bool {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.count = count.count.saturating_add(1);
        if !count.runs {
            count.runs = true;
            let refusals = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(SPAN).await;
                refusals.close();
            });
        }
        count.count <= MOST_LINES
    }

    /// Ends the span, and tells how many lines were not written.
    fn close(&self) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let more = count.count.saturating_sub(MOST_LINES);
        *count = Count::default();
        drop(count);
        if more > 0 {
            tracing::info!(more, "more requests refused, each as those before");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_refusals_writes_few_lines_a_second() {
        let refusals = Refusals::default();
        let written = |of| (0..of).filter(|_| refusals.admit()).count();
        assert_eq!(written(1000), 50);
        tokio::time::sleep(2 * SPAN).await;
        assert_eq!(written(1000), 50);
        tokio::time::sleep(2 * SPAN).await;
        assert_eq!(written(10), 10);
    }
}
