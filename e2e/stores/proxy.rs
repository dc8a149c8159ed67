//! A proxy before a store that can make it stand still: queries are then
//! answered as of the moment it stopped, as by a store whose writers hang.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// The time after which nothing is seen, while it stands still.
type Stopped = Arc<Mutex<Option<f64>>>;

/// The proxy; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    stopped: Stopped,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy before the store at `url`.
    pub(crate) async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Stopped::default();
        let task = tokio::spawn(accept(listener, url.to_owned(), Arc::clone(&stopped)));
        Self {
            address,
            stopped,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on nothing new is seen.
    pub(crate) fn stop(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        *self.stopped.lock().unwrap() = Some(now.as_secs_f64());
    }

    /// From now on everything is seen again.
    pub(crate) fn resume(&self) {
        *self.stopped.lock().unwrap() = None;
    }
}

async fn accept(listener: TcpListener, url: String, stopped: Stopped) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (url, stopped) = (url.clone(), Arc::clone(&stopped));
        connections.spawn(async move {
            let service = service_fn(|request| forward(request, &url, &stopped));
            let server = hyper::server::conn::http1::Builder::new();
            // An error here is a client that left.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn forward(
    request: Request<Incoming>,
    url: &str,
    stopped: &Stopped,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let query = as_of(query, *stopped.lock().unwrap());
    let answer = reqwest::get(format!("{url}{path}?{query}")).await;
    let mut response = Response::new(Full::default());
    let Ok(answer) = answer else {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(response);
    };
    *response.status_mut() = answer.status();
    for name in ["content-type", "x-server-hostname"] {
        if let Some(value) = answer.headers().get(name) {
            let name = http::HeaderName::from_static(name);
            response.headers_mut().insert(name, value.clone());
        }
    }
    let body = answer.bytes().await.unwrap_or_default();
    *response.body_mut() = Full::new(body);
    Ok(response)
}

/// The parameters of a query, its time no later than `stopped`: its range then
/// reaches further back than was asked, never less.
fn as_of(query: &str, stopped: Option<f64>) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match (&*name, stopped) {
            ("time", Some(stopped)) => {
                let asked: f64 = value.parse().unwrap();
                form.append_pair("time", &format!("{:.3}", asked.min(stopped)))
            }
            _ => form.append_pair(&name, &value),
        };
    }
    form.finish()
}
