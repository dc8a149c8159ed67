//! Exporters as real HTTP endpoints on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

pub use super::overrides::Controls;

use super::fleet::Fleet;
use apimachinery::time::Timestamp;

/// A listening exporter. Dropping it stops it and its connections.
#[derive(Debug)]
pub struct RunningExporter {
    /// Its index in [`Fleet::exporters`].
    pub index: usize,
    /// Where it listens; the text is at `/metrics`.
    pub addr: SocketAddr,
    task: JoinHandle<()>,
}

impl RunningExporter {
    /// Stops it and waits until its port is free.
    pub async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for RunningExporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves every exporter of a fleet on a port of its own on 127.0.0.1.
///
/// A silent exporter closes the connection without an answer: the scraper sees the target
/// down.
///
/// # Errors
/// When a port cannot be bound.
pub async fn serve<C>(
    fleet: Arc<Fleet>,
    controls: Arc<Controls>,
    clock: C,
) -> io::Result<Vec<RunningExporter>>
where
    C: Fn() -> Timestamp + Clone + Send + Sync + 'static,
{
    let mut running = Vec::with_capacity(fleet.exporters().len());
    for index in 0..fleet.exporters().len() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let endpoint = Endpoint {
            fleet: Arc::clone(&fleet),
            controls: Arc::clone(&controls),
            clock: clock.clone(),
            index,
        };
        let task = tokio::spawn(accept(listener, endpoint));
        running.push(RunningExporter { index, addr, task });
    }
    Ok(running)
}

/// The state of one endpoint.
#[derive(Clone)]
struct Endpoint<C> {
    fleet: Arc<Fleet>,
    controls: Arc<Controls>,
    clock: C,
    index: usize,
}

/// Owns the connections, which end with the task.
async fn accept<C>(listener: TcpListener, endpoint: Endpoint<C>)
where
    C: Fn() -> Timestamp + Clone + Send + Sync + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let endpoint = endpoint.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let answer = endpoint.answer(&request);
                async move { answer.ok_or(Silent) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            // An error here means that a scraper left or the exporter is silent.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The exporter does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the exporter is silent")]
struct Silent;

impl<C: Fn() -> Timestamp> Endpoint<C> {
    fn answer<B>(&self, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
        let at = (self.clock)();
        let overrides = self.controls.now();
        let text = self.fleet.exposition_under(self.index, at, &overrides)?;
        let (status, body) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, Bytes::from(text)),
            (&Method::GET, "/health") => (StatusCode::OK, Bytes::from_static(b"OK")),
            _ => (StatusCode::NOT_FOUND, Bytes::new()),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let plain = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        Some(response)
    }
}
