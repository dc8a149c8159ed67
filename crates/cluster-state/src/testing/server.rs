//! The HTTP server behind the fakes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A server and a kubeconfig for it. Dropping it stops the server.
pub(super) struct Server {
    task: JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) fn start<F>(
        listener: TcpListener,
        answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig(address)).unwrap();
        let task = tokio::spawn(async move {
            // Dropping the set with this task closes all connections.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = answer.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let answer = answer(request);
                        async { Ok::<_, Infallible>(answer.await) }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { task, folder }
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// A kubeconfig with a token for a server without TLS.
pub(crate) fn kubeconfig(address: SocketAddr) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "test", "user": {"token": "secret"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
    .to_string()
}

/// An answer with a body.
pub(super) fn whole(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status.try_into().unwrap();
    response
}
