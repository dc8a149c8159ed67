//! An HTTP server that records its requests and answers them with a function.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aggregated_apiserver::testing::http_server::{serve, whole};
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::net::TcpListener;

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// By lower-case name.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// A parameter of the query, or of the form.
    pub(super) fn param(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let both = format!("{query}&{}", self.body);
        let mut pairs = url::form_urlencoded::parse(both.as_bytes());
        pairs
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.into_owned())
    }
}

pub(super) struct FakeIssuer {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeIssuer {
    pub(super) async fn start(
        answer: impl FnMut(&Asked) -> (u16, String) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (record, answer) = (Arc::clone(&asked), Arc::new(Mutex::new(answer)));
        // It ends with the runtime of the test.
        drop(serve(listener, None, move |request| {
            let (record, answer) = (Arc::clone(&record), Arc::clone(&answer));
            async move {
                let asked = received(request).await;
                let (status, body) = (answer.lock().unwrap())(&asked);
                record.lock().unwrap().push(asked);
                whole(status, body)
            }
        }));
        Self { url, asked }
    }

    /// All requests so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn host(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }
}

async fn received(request: Request<Incoming>) -> Asked {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = parts.headers.iter();
    Asked {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        headers: headers
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: String::from_utf8(body.into()).unwrap(),
    }
}
