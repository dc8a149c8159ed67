//! Answers that take computing are made beside the threads that serve
//! connections, few at a time, with a short queue (docs/security.md, "Limits").

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::Full;
use tokio::sync::Semaphore;

use super::context::RequestContext;
use super::status::Failure;
use super::{Api, response};
use crate::provider::{Effort, Error};

/// Requests that wait for it; more are turned away at once.
const MOST_WAITING: usize = 256;
/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who may work, and who may wait for it.
#[derive(Debug)]
pub(super) struct ComputeLimit {
    waiting: Semaphore,
    working: Arc<Semaphore>,
}

impl Default for ComputeLimit {
    /// Half of the processors work here at most: the others poll and serve.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self {
            waiting: Semaphore::new(MOST_WAITING),
            working: Arc::new(Semaphore::new((processors / 2).clamp(1, 4))),
        }
    }
}

/// Answers at once where that is cheap, else when there is room for it.
pub(super) async fn answer(
    api: Api,
    context: Arc<RequestContext>,
    headers: HeaderMap,
) -> Response<Full<Bytes>> {
    let manner = context.manner;
    let answer = match api.answer(&context, &headers, Effort::AtHand) {
        Err(Failure::Provider(Error::TakesWork, _)) => work(api, context, headers).await,
        answer => answer,
    };
    answer.unwrap_or_else(|failure| response::failure(failure, manner))
}

async fn work(
    api: Api,
    context: Arc<RequestContext>,
    headers: HeaderMap,
) -> Result<Response<Full<Bytes>>, Failure> {
    let no_room = || Failure::Provider(Error::TakesWork, Box::default());
    let limit = &api.inner.compute;
    let waiting = limit.waiting.try_acquire().map_err(|_| no_room())?;
    let working = Arc::clone(&limit.working).acquire_owned();
    let Ok(Ok(working)) = tokio::time::timeout(PATIENCE, working).await else {
        return Err(no_room());
    };
    drop(waiting);
    // Another may have made the answer meanwhile.
    match api.answer(&context, &headers, Effort::AtHand) {
        Err(Failure::Provider(Error::TakesWork, _)) => {}
        answer => return answer,
    }
    let made = tokio::task::spawn_blocking(move || {
        // Held by the work itself: a client that goes away does not end it.
        let _working = working;
        api.answer(&context, &headers, Effort::Full)
    });
    match made.await {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(no_room()),
    }
}
