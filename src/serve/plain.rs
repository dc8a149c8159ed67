//! A second port without TLS, for operators: health and metrics only.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

use super::listener::Serve;

/// A probe and a few scrapers.
const CONNECTIONS: usize = 64;

/// For the head of a request, and for a connection as a whole.
const HEAD: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(300);

/// Rest after an accept that failed: descriptors may be short.
const REST: Duration = Duration::from_millis(100);

/// Serves until told to stop.
pub async fn run(tcp: TcpListener, service: impl Serve, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = tcp.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(REST).await;
            continue;
        };
        // More than that is nobody who scrapes: it may try again.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let service = service.clone();
        let mut stop = stop.clone();
        tokio::spawn(async move {
            let respond = service_fn(move |request: Request<Incoming>| {
                service.clone().oneshot(request.map(|_| ()))
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(stream), respond);
            tokio::select! {
                _ = tokio::time::timeout(WHOLE, connection) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
            drop(place);
        });
    }
}
