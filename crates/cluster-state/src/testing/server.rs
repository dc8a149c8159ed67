//! The HTTP server behind the fakes.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::{Request, Response};
use hyper::body::Incoming;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use aggregated_apiserver::testing::http_server::{Body, serve};

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
        let task = serve(listener, None, answer);
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
