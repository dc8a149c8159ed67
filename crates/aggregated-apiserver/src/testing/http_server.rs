//! A real HTTP server that answers with a function.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Serves with or without TLS. Aborting the task closes all connections.
pub fn serve<F>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> JoinHandle<()>
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    tokio::spawn(async move {
        // Dropped with this task, which ends all connections.
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, answer) = (tls.clone(), answer.clone());
            connections.spawn(async move {
                match tls {
                    None => connection(stream, answer).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            connection(stream, answer).await;
                        }
                    }
                }
            });
        }
    })
}

async fn connection<S, F>(stream: S, answer: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = answer(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let server = auto::Builder::new(TokioExecutor::new());
    // A connection that is cut on purpose ends with an error.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// An answer with a body.
pub fn whole(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status.try_into().unwrap();
    response
}
