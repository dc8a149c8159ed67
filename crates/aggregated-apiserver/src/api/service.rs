//! Adapts a router to the service of a listener.

use axum::Router;
use axum::body::Body;
use http_body_util::{BodyExt as _, Collected, Full};
use tower::ServiceExt as _;

use crate::serve::listener::Service;

/// The router as a service. A listener passes requests without bodies. It needs complete
/// responses, because it holds a response's extensions until the response is written.
pub fn into_service(router: Router) -> Service {
    Service::new(tower::service_fn(move |request: http::Request<()>| {
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(|()| Body::empty())).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map(Collected::to_bytes);
            let body = Full::new(body.unwrap_or_default());
            Ok(http::Response::from_parts(parts, body))
        }
    }))
}
