//! The shutdown over real TLS connections.

mod generated;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::serve::listener::Limits;
use aggregated_apiserver::testing::test_server::TestServer;
use apimachinery::time::Timestamp;

use crate::api::{Api, router};
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::telemetry::Telemetry;

/// A server that stops in phases, which the test controls: on a busy machine a request may
/// take longer than any delay.
async fn start(telemetry: &Telemetry, draining: &watch::Sender<bool>) -> TestServer {
    let metrics = gpu_metrics::dcgm::metrics::built_in();
    let provider = Composite::from(Arc::new(GpuProvider::new(&metrics)));
    let now = || Timestamp::from_secs(0);
    let api = Api::new(Arc::new(provider), now, telemetry.clone());
    let service = into_service(router::open(&api));
    TestServer::until(draining.subscribe(), service, Limits::default(), |_| ()).await
}

/// Sends a request on a connection that stays open, and reads the status.
async fn ask(connection: &mut TlsStream<TcpStream>, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    connection.read_exact(&mut head).await.unwrap();
    std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}

/// Reads until the server closes the connection.
async fn ended(mut connection: TlsStream<TcpStream>) {
    let mut rest = Vec::new();
    let read = connection.read_to_end(&mut rest);
    let limit = Duration::from_secs(60);
    // With or without a TLS close_notify.
    let _ = tokio::time::timeout(limit, read).await.unwrap();
}

#[tokio::test]
async fn s101_a_stopping_server_serves_until_its_clients_have_left() {
    let telemetry = Telemetry::new().unwrap();
    let readiness = telemetry.health.register("shutdown", true);
    let draining = watch::Sender::new(false);
    let server = start(&telemetry, &draining).await;
    let address = server.address;
    let mut kept = server.connect().await;
    assert_eq!(ask(&mut kept, "/apis").await, 200);
    assert_eq!(server.get("/readyz").await.status, 200);

    readiness.set(false);
    assert_eq!(server.get("/readyz").await.status, 500);
    for path in ["/livez", "/apis", "/apis/custom.metrics.k8s.io/v1beta2"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }

    draining.send_replace(true);
    ended(kept).await;
    server.task.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
