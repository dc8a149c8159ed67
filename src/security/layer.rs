//! A tower layer from one asynchronous function.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use tower::{Layer, Service, ServiceExt};

use super::denied::Answer;

/// What stands inside a layer: requests without their bodies.
pub trait Inner:
    Service<
        Request<()>,
        Response = Answer,
        Error = Infallible,
        Future: Future<Output = Result<Answer, Infallible>> + Send,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Inner for S where
    S: Service<
            Request<()>,
            Response = Answer,
            Error = Infallible,
            Future: Future<Output = Result<Answer, Infallible>> + Send,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// What a layer does around a request.
pub(super) trait Step: Send + Sync + 'static {
    /// Answers, with the help of what stands inside or without.
    fn run<S: Inner>(
        self: Arc<Self>,
        request: Request<()>,
        inner: S,
    ) -> impl Future<Output = Answer> + Send;
}

/// The answer from inside.
pub(super) async fn pass<S: Inner>(inner: S, request: Request<()>) -> Answer {
    match inner.oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

/// Makes a [`Step`] a layer.
pub(super) struct Wrap<T>(Arc<T>);

impl<T> Wrap<T> {
    pub(super) fn new(step: T) -> Self {
        Self(Arc::new(step))
    }
}

impl<T, S> Layer<S> for Wrap<T> {
    type Service = Around<T, S>;

    fn layer(&self, inner: S) -> Self::Service {
        let step = self.0.clone();
        Around { step, inner }
    }
}

/// A [`Step`] around a service.
pub(super) struct Around<T, S> {
    step: Arc<T>,
    inner: S,
}

impl<T, S: Clone> Clone for Around<T, S> {
    fn clone(&self) -> Self {
        Self {
            step: self.step.clone(),
            inner: self.inner.clone(),
        }
    }
}

impl<T: Step, S: Inner> Service<Request<()>> for Around<T, S> {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // What stands inside is asked when the request is passed on.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let (step, inner) = (self.step.clone(), self.inner.clone());
        Box::pin(async move { Ok(step.run(request, inner).await) })
    }
}
