//! A fake Prometheus behind a real HTTP server. The test sets its answers and its faults:
//! it stalls, or cuts its answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use aggregated_apiserver::testing::http_server::{Body, Recorded, serve, whole};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mood {
    #[default]
    Healthy,
    Stalling,
    Cutting,
}

#[derive(Debug, Default)]
struct State {
    mood: Mood,
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    /// If set, metric names are matched only by equality, and these exist.
    names: Option<BTreeMap<String, Bytes>>,
    requests: Vec<Recorded>,
}

const EMPTY: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;

/// The error of Google's store.
const EQUALITY_ONLY: &str = r#"{"status":"error","errorType":"bad_data","error":"=~ is an unsupported matchtype for the __name__ label"}"#;

impl State {
    fn answer(&self, request: &Recorded) -> (u16, Bytes) {
        let Some(names) = &self.names else {
            return (self.status, self.body.clone());
        };
        let query = request.param("query").unwrap_or_default();
        let name = query.strip_prefix("{__name__=\"");
        match name.and_then(|rest| rest.split_once('"')) {
            Some((name, _)) => (200, names.get(name).cloned().unwrap_or(EMPTY.into())),
            None => (400, EQUALITY_ONLY.into()),
        }
    }
}

type Shared = Arc<Mutex<State>>;

/// The server, which stops when dropped.
#[derive(Debug)]
pub struct FakePrometheus {
    address: SocketAddr,
    secure: bool,
    state: Shared,
    server: JoinHandle<()>,
}

impl Drop for FakePrometheus {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakePrometheus {
    /// A server with an empty answer, over plain HTTP.
    pub async fn start() -> Self {
        Self::listen(None).await
    }

    /// A server with an empty answer, over TLS.
    pub async fn start_tls(config: Arc<rustls::ServerConfig>) -> Self {
        Self::listen(Some(config.into())).await
    }

    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Shared::default();
        let secure = tls.is_some();
        let shared = Arc::clone(&state);
        let respond = move |request| respond(request, Arc::clone(&shared));
        let server = serve(listener, tls, respond);
        let fake = Self {
            address,
            secure,
            state,
            server,
        };
        fake.answer(EMPTY);
        fake
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Answers 200 with this body from now on.
    pub fn answer(&self, body: impl Into<Bytes>) {
        self.answer_with(200, &[("content-type", "application/json")], body);
    }

    /// Answers with this status, these headers and this body from now on.
    pub fn answer_with(&self, status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) {
        let mut state = self.state.lock().unwrap();
        state.status = status;
        state.body = body.into();
        state.headers.clear();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            state.headers.append(name, value.parse().unwrap());
        }
    }

    /// Matches metric names only by equality from now on, as Google's store does,
    /// with these names and answers.
    pub fn match_names_exactly(&self, names: &[(&str, &str)]) {
        let names = names.iter();
        let names = names.map(|(name, body)| ((*name).to_owned(), Bytes::from((*body).to_owned())));
        self.state.lock().unwrap().names = Some(names.collect());
    }

    /// Does not answer from now on: requests are only read.
    pub fn stall(&self) {
        self.state.lock().unwrap().mood = Mood::Stalling;
    }

    /// Closes the connection in the middle of the body from now on.
    pub fn cut(&self) {
        self.state.lock().unwrap().mood = Mood::Cutting;
    }

    /// Answers again from now on.
    pub fn heal(&self) {
        self.state.lock().unwrap().mood = Mood::Healthy;
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.lock().unwrap().requests.clone()
    }

    /// The newest request.
    pub fn last_request(&self) -> Recorded {
        self.requests().pop().expect("a request")
    }
}

async fn respond(request: Request<Incoming>, state: Shared) -> Response<Body> {
    let request = Recorded::receive(request).await;
    let (mood, mut response) = {
        let mut state = state.lock().unwrap();
        let (status, body) = state.answer(&request);
        state.requests.push(request);
        let mut response = whole(status, body);
        *response.headers_mut() = state.headers.clone();
        (state.mood, response)
    };
    match mood {
        Mood::Healthy => response,
        Mood::Stalling => std::future::pending().await,
        Mood::Cutting => {
            let whole = response.body_mut().collect().await.unwrap().to_bytes();
            let half = whole.slice(..whole.len() / 2);
            let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            let frames = stream::iter([Ok(Frame::data(half)), Err(broken)]);
            let headers = response.headers_mut();
            headers.insert(http::header::CONTENT_LENGTH, whole.len().into());
            response.map(|_| StreamBody::new(frames).boxed_unsync())
        }
    }
}
