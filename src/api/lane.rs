//! The lane for answers that take work: beside the threads that serve
//! connections, few at a time, with a short queue (docs/security.md, "Limits").

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body_util::Full;
use tokio::sync::Semaphore;

use super::status::Failure;
use super::{Api, response};
use crate::provider::{Effort, Error};

/// Requests that wait for the lane; more are turned away at once.
const MOST_WAITING: usize = 256;
/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(1);

type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// An answer at hand, or one in the making.
pub(super) type Answering = Either<Ready<Answer>, Pin<Box<dyn Future<Output = Answer> + Send>>>;

/// Who may work, and who may wait for it.
#[derive(Debug)]
pub(super) struct Lane {
    waiting: Semaphore,
    working: Arc<Semaphore>,
}

impl Default for Lane {
    /// Half of the processors work here at most: the others poll and serve.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self {
            waiting: Semaphore::new(MOST_WAITING),
            working: Arc::new(Semaphore::new((processors / 2).clamp(1, 4))),
        }
    }
}

/// Answers at once where that is cheap.
pub(super) fn answer(api: &Api, request: Parts) -> Answering {
    if let Some(response) = api.attempt(&request, Effort::AtHand) {
        return Either::Left(ready(Ok(response)));
    }
    let api = api.clone();
    Either::Right(Box::pin(async move { Ok(work(api, request).await) }))
}

async fn work(api: Api, request: Parts) -> Response<Full<Bytes>> {
    let lane = &api.inner.lane;
    let Ok(waiting) = lane.waiting.try_acquire() else {
        return refusal(&request.headers);
    };
    let working = Arc::clone(&lane.working).acquire_owned();
    let Ok(Ok(working)) = tokio::time::timeout(PATIENCE, working).await else {
        return refusal(&request.headers);
    };
    drop(waiting);
    // Another may have made the answer meanwhile.
    if let Some(response) = api.attempt(&request, Effort::AtHand) {
        return response;
    }
    let headers = request.headers.clone();
    let made = tokio::task::spawn_blocking(move || {
        // Held by the work itself: a client that goes away does not end it.
        let _working = working;
        api.handle(&request)
    });
    made.await.unwrap_or_else(|_| refusal(&headers))
}

/// The answer when there is no room in the lane.
pub(super) fn refusal(headers: &HeaderMap) -> Response<Full<Bytes>> {
    let failure = Failure::Provider(Error::TakesWork, Box::default());
    let mut response = response::failure(failure, response::plain_manner(headers));
    response::finish(&mut response, headers);
    response
}
