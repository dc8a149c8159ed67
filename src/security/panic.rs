//! A fault in one request is the end of that request only: a connection carries
//! every user of an aggregator.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::Request;

use super::audit::{AccessOf, trail};
use super::denied::{Answer, Denied, Refusals};
use super::layer::{Inner, Step, pass};

/// Turns a panic into a refusal.
pub(super) struct CatchPanic {
    pub(super) refusals: Refusals,
    pub(super) access_of: AccessOf,
}

impl Step for CatchPanic {
    async fn run<S: Inner>(self: Arc<Self>, request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        let mut served = pin!(pass(inner, request));
        let answer = std::future::poll_fn(|context| {
            // After a panic the future is dropped and never polled again.
            match catch_unwind(AssertUnwindSafe(|| served.as_mut().poll(context))) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(answer)) => Poll::Ready(Some(answer)),
                Err(_) => Poll::Ready(None),
            }
        })
        .await;
        answer.unwrap_or_else(|| self.refusals.answer(Denied::Panicked, &trail))
    }
}
