//! A real HTTP server that answers with a function.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
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
use url::form_urlencoded;

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

/// A received request.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: String,
}

impl Recorded {
    pub async fn receive(request: Request<Incoming>) -> Self {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body: String::from_utf8(body.into()).unwrap(),
        }
    }

    /// The value of a parameter, in the URL or in the form of the body.
    pub fn param(&self, name: &str) -> Option<String> {
        let query = self.uri.query().unwrap_or_default();
        let pairs = [query, &self.body].map(|text| form_urlencoded::parse(text.as_bytes()));
        let mut pairs = pairs.into_iter().flatten();
        let (_, value) = pairs.find(|(key, _)| key == name)?;
        Some(value.into_owned())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// An answer with a body.
pub fn whole(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status.try_into().unwrap();
    response
}
