//! Adapts a router to the service of a listener.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Collected, Full};
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use super::response;
use crate::refusal::Refusal;

/// The router as a service. A listener passes requests without bodies. It needs complete
/// responses, because it holds a response's extensions until the response is written.
pub fn into_service(
    router: Router,
) -> BoxCloneSyncService<http::Request<()>, http::Response<Full<Bytes>>, Infallible> {
    BoxCloneSyncService::new(tower::service_fn(move |request: http::Request<()>| {
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(|()| Body::empty()));
            // The layers that read and count a request are outside of the one that catches
            // panics. A panic there must not end the connection either.
            let Ok(response) = AssertUnwindSafe(response).catch_unwind().await else {
                tracing::error!("a request made the server panic");
                return Ok(response::refused_early(&Refusal::Panicked));
            };
            let (parts, body) = response?.into_parts();
            let body = body.collect().await.map(Collected::to_bytes);
            let body = Full::new(body.unwrap_or_default());
            Ok(http::Response::from_parts(parts, body))
        }
    }))
}
