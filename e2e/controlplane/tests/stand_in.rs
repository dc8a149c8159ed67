//! A minimal server of an API group for the aggregator.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::controlplane::Identity;

/// A TLS server that answers every request with its user, ended on drop.
#[derive(Debug)]
pub(super) struct StandIn {
    port: u16,
    _runtime: Runtime,
}

impl StandIn {
    /// Starts a server that accepts only certificates of an authority.
    pub(super) fn start(identity: &Identity, clients: &Path) -> Self {
        let acceptor = TlsAcceptor::from(tls(identity, clients));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), stream));
            }
        });
        Self {
            port,
            _runtime: runtime,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

fn tls(identity: &Identity, clients: &Path) -> Arc<ServerConfig> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(clients).unwrap())
        .unwrap();
    let verifier = WebPkiClientVerifier::builder(roots.into()).build().unwrap();
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
    ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.unwrap()], key.unwrap())
        .unwrap()
        .into()
}

/// Serves a connection, until it ends or its handshake fails.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream) {
    if let Ok(stream) = acceptor.accept(stream).await {
        let service = service_fn(answer);
        let connection = hyper::server::conn::http1::Builder::new();
        let _ = connection
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let values = |name: &str| -> Vec<String> {
        let values = request.headers().get_all(name).iter();
        values
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    };
    let body = json!({
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": "lab.test/v1",
        "resources": [],
        "user": values("x-remote-user").join(","),
        "groups": values("x-remote-group"),
    });
    let response = Response::builder().header("content-type", "application/json");
    let body = Full::new(Bytes::from(body.to_string()));
    Ok(response.body(body).unwrap())
}
