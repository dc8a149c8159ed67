//! The tower layer that counts requests and measures how long they take.
//!
//! It stands outermost, so that what other layers refuse is counted, too.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response, Uri};
use tokio::time::Instant;
use tower::{Layer, Service};

use super::metrics::{Class, Requests};

/// Tells what sort of request it is; from closed sets.
pub type Classify = Arc<dyn Fn(&Method, &Uri) -> Class + Send + Sync>;

/// Makes services [`Counted`].
#[derive(Clone)]
pub struct CountLayer {
    requests: Requests,
    classify: Classify,
}

impl fmt::Debug for CountLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountLayer").finish_non_exhaustive()
    }
}

impl CountLayer {
    /// Counts into `requests` by what `classify` says.
    #[must_use]
    pub fn new(requests: Requests, classify: Classify) -> Self {
        Self { requests, classify }
    }
}

impl<S> Layer<S> for CountLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            count: self.clone(),
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    count: CountLayer,
}

impl<S, B, A> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<A>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<A>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let began = Instant::now();
        let under_way = self.count.requests.begin();
        let class = (self.count.classify)(request.method(), request.uri());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            under_way.answered(&class, response.status().as_u16(), began.elapsed());
            Ok(response)
        })
    }
}
