//! Tests with issuers on loopback that record their requests.

mod amazon;
mod renewal;
mod signatures;
mod tokens;

use std::sync::{Arc, Mutex};

use aggregated_apiserver::testing::http_server::{Recorded, serve, whole};
use reqwest::Request;
use tokio::net::TcpListener;

use super::*;

/// An HTTP server that records its requests and answers them with a function.
struct FakeIssuer {
    host: String,
    url: String,
    asked: Arc<Mutex<Vec<Recorded>>>,
}

impl FakeIssuer {
    async fn start(answer: impl Fn(&Recorded) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<Recorded>>> = Arc::default();
        let (record, answer) = (Arc::clone(&asked), Arc::new(answer));
        // It ends with the runtime of the test.
        drop(serve(listener, None, move |request| {
            let (record, answer) = (Arc::clone(&record), Arc::clone(&answer));
            async move {
                let request = Recorded::receive(request).await;
                let (status, body) = answer(&request);
                record.lock().unwrap().push(request);
                whole(status, body)
            }
        }));
        let url = format!("http://{host}");
        Self { host, url, asked }
    }

    /// One that answers each request with this body.
    async fn answering(body: &str) -> Self {
        let body = body.to_owned();
        Self::start(move |_| (200, body.clone())).await
    }

    /// All requests so far.
    fn asked(&self) -> Vec<Recorded> {
        self.asked.lock().unwrap().clone()
    }
}

/// A request to a store, without credentials.
fn request() -> Request {
    let url = "http://store.example/api/v1/query?query=up+1";
    Request::new(http::Method::GET, url.parse().unwrap())
}

/// The value of `Authorization` that a method adds.
async fn authorization(authenticator: &Authenticator) -> Result<String, String> {
    let mut request = request();
    let authorized = authenticator.authorize(&mut request).await;
    authorized.map_err(|error| error.to_string())?;
    let value = request.headers().get("authorization").unwrap();
    assert!(value.is_sensitive(), "a secret that logs may show");
    Ok(value.to_str().unwrap().to_owned())
}

/// Exactly these environment variables.
fn environment<const N: usize>(variables: [(&'static str, String); N]) -> Variables {
    let variables = std::collections::HashMap::from(variables);
    Box::new(move |name| variables.get(name).cloned())
}

fn authenticator<const N: usize>(
    method: AuthMethod,
    variables: [(&'static str, String); N],
) -> Authenticator {
    let store = "http://store.example".parse().unwrap();
    Authenticator::new(method, &store, environment(variables)).unwrap()
}

fn file(content: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> String {
    file.path().to_str().unwrap().to_owned()
}
