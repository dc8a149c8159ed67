//! A proxy for a store that can stop the store's time. Queries are then answered as of the
//! moment of the stop, as by a store whose writers hang. The proxy can also hold queries,
//! like a slow store, and counts them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The proxy's state.
#[derive(Debug, Default)]
struct State {
    /// While the proxy is stopped, the time after which samples are invisible.
    stopped: Mutex<Option<f64>>,
    /// Queries with this text are held.
    held: watch::Sender<Option<&'static str>>,
    holding: AtomicUsize,
    most: AtomicUsize,
}

/// A held query. It ends with its connection.
struct Holding<'s>(&'s State);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.holding.fetch_sub(1, Ordering::SeqCst);
    }
}

impl State {
    /// Returns when a query may continue.
    async fn pass(&self, query: &str) {
        let mut held = self.held.subscribe();
        let is_held = |text: &str| {
            let mut parameters = url::form_urlencoded::parse(query.as_bytes());
            parameters.any(|(_, value)| value.contains(text))
        };
        if held.borrow().is_some_and(is_held) {
            let now = self.holding.fetch_add(1, Ordering::SeqCst) + 1;
            let _holding = Holding(self);
            self.most.fetch_max(now, Ordering::SeqCst);
            let _ = held.wait_for(Option::is_none).await;
        }
    }
}

/// The proxy, ended on drop.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy for the store at `url`.
    pub(crate) async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::default();
        let task = tokio::spawn(accept(listener, url.to_owned(), Arc::clone(&state)));
        Self {
            address,
            state,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Hides new samples from now on.
    pub(crate) fn stop(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        *self.state.stopped.lock().unwrap() = Some(now.as_secs_f64());
    }

    /// Shows all samples from now on.
    pub(crate) fn resume(&self) {
        *self.state.stopped.lock().unwrap() = None;
    }

    /// Holds queries with this text from now on.
    pub(crate) fn hold(&self, text: &'static str) {
        self.state.held.send_replace(Some(text));
    }

    /// Answers all queries from now on, including held ones.
    pub(crate) fn release(&self) {
        self.state.held.send_replace(None);
    }

    /// The number of held queries, and its maximum so far.
    pub(crate) fn holding(&self) -> (usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (read(&self.state.holding), read(&self.state.most))
    }
}

async fn accept(listener: TcpListener, url: String, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (url, state) = (url.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let service = service_fn(|request| forward(request, &url, &state));
            let server = hyper::server::conn::http1::Builder::new();
            // An error here means that the client disconnected.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn forward(
    request: Request<Incoming>,
    url: &str,
    state: &State,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    state.pass(query).await;
    let query = as_of(query, *state.stopped.lock().unwrap());
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

/// The parameters of a query with a time no later than `stopped`. Its range then starts at
/// the requested time or earlier.
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
