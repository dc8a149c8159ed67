//! HTTP servers that tests put in the place of a store, a proxy or an exporter.

use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use aggregated_apiserver::testing::http_server::serve;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server on the loopback interface. It ends with its connections, on drop.
#[derive(Debug)]
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Stub {
    /// Starts a server that answers each request by a function.
    pub(crate) async fn start<A, F, B>(answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), answer).await
    }

    /// Starts one on this address.
    pub(crate) async fn start_on<A, F, B>(host: IpAddr, answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = serve(listener, None, move |request| {
            let answered = answer(request);
            async move {
                let boxed = |body: B| body.map_err(io::Error::other).boxed_unsync();
                answered.await.map(boxed)
            }
        });
        Self { address, task }
    }

    /// Starts an exporter of texts, each at `/INDEX`.
    pub(crate) async fn exporting(host: IpAddr, texts: Vec<String>) -> Self {
        Self::start_on(host, move |request: Request<Incoming>| {
            let index: Option<usize> = request.uri().path()[1..].parse().ok();
            let text = index.and_then(|index| texts.get(index)).cloned();
            let mut response = Response::new(Full::<Bytes>::from(text.unwrap_or_default()));
            // Prometheus 3 requires a content type.
            let plain = HeaderValue::from_static("text/plain; version=0.0.4");
            response.headers_mut().insert(CONTENT_TYPE, plain);
            std::future::ready(response)
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A store's answer to a request; 502 if there is none.
pub(crate) async fn forward<B: Body>(store: &str, request: Request<B>) -> Response<Full<Bytes>>
where
    B::Error: Debug,
{
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().unwrap();
    let forwarded = reqwest::Client::new()
        .request(parts.method, format!("{store}{target}"))
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(body.collect().await.unwrap().to_bytes());
    let mut response = Response::new(Full::default());
    let Ok(answer) = forwarded.send().await else {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return response;
    };
    *response.status_mut() = answer.status();
    let kind = answer.headers().get(CONTENT_TYPE).cloned();
    let kind = kind.map(|it| (CONTENT_TYPE, it));
    response.headers_mut().extend(kind);
    *response.body_mut() = Full::new(answer.bytes().await.unwrap_or_default());
    response
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}
