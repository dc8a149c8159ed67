//! The listener with misbehaving clients.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use rustls::RootCertStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::util::BoxCloneSyncService;

mod crowd;
mod front_proxy;
mod refusals;
mod rounds;
mod unread;

use super::listener::{Limits, Listener, Peer, Service};
use super::tls::ClientAuth;
use crate::certificates::authority::CertificateAuthority;
use crate::testing::test_server::{TestServer, read_answer, until, validity};

const HOUR: Duration = Duration::from_secs(3600);
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// Answers after a delay with the number of client certificates. Counts requests.
fn service(delay: Duration, count: &Arc<AtomicUsize>) -> Service {
    let count = count.clone();
    Service::new(tower::service_fn(move |request: Request<()>| {
        count.fetch_add(1, Ordering::SeqCst);
        let shown = request
            .extensions()
            .get::<Peer>()
            .unwrap()
            .certificates
            .len();
        async move {
            tokio::time::sleep(delay).await;
            Ok(Response::new(Full::new(Bytes::from(shown.to_string()))))
        }
    }))
}

async fn start(limits: Limits, delay: Duration) -> (TestServer, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let authority = CertificateAuthority::new("test", validity()).unwrap();
    let service = service(delay, &count);
    let server = TestServer::with(service, authority, &ClientAuth::Asked, limits).await;
    (server, count)
}

/// Limits so long that no connection ends by time.
fn patient() -> Limits {
    Limits {
        handshake: HOUR,
        read: HOUR,
        idle: HOUR,
        age: HOUR,
        stall: HOUR,
        ..Limits::default()
    }
}

async fn quick() -> (TestServer, Arc<AtomicUsize>) {
    start(Limits::default(), Duration::ZERO).await
}

#[tokio::test]
async fn s093_two_lengths_are_refused_and_nothing_after_them_is_executed() {
    let (server, count) = quick().await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    for headers in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: -1",
        "Content-Length : 4",
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n0\r\n\r\n{smuggled}");
        let answer = server.raw(request.as_bytes()).await;
        assert_eq!(answer.status, 400, "{headers}");
        assert_eq!(answer.header("connection"), Some("close"), "{headers}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn s094_large_bodies_are_refused_before_they_are_sent() {
    let (server, count) = quick().await;
    let began = Instant::now();
    for (headers, code) in [
        ("Content-Length: 65537", 413),
        ("Content-Length: 1073741824", 413),
        ("Transfer-Encoding: chunked", 400),
    ] {
        let answer = server
            .raw(format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n").as_bytes())
            .await;
        assert_eq!(answer.status, code, "{headers}");
        assert_eq!(answer.json()["code"], code);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let mut small =
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 65536\r\n\r\n".to_vec();
    small.resize(small.len() + 65536, b'x');
    assert_eq!(server.raw(&small).await.status, 200);
}

#[tokio::test]
async fn a_large_body_over_http2_is_refused_and_the_connection_lives() {
    let (server, count) = quick().await;
    let client = server.http2();
    let large = client
        .post(server.url("/"))
        .body(vec![0; 1 << 20])
        .send()
        .await;
    if let Ok(answer) = large {
        assert_eq!(answer.status(), 413);
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(
        client.get(server.url("/")).send().await.unwrap().status(),
        200
    );
}

#[tokio::test]
async fn a_user_with_500_groups_is_accepted() {
    let (server, _) = quick().await;
    let mut request = server.http2().get(server.url("/"));
    for index in 0..500 {
        request = request.header(
            "X-Remote-Group",
            format!("oidc:some-long-group-name-{index}"),
        );
    }
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn slow_handshakes_slow_heads_and_slow_bodies_are_cut() {
    let limits = Limits {
        handshake: Duration::from_millis(200),
        read: Duration::from_millis(200),
        ..Limits::default()
    };
    let (server, count) = start(limits, Duration::ZERO).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(10), async {
        let mut byte = [0; 1];
        silent.readable().await.unwrap();
        silent.try_read(&mut byte)
    });
    assert!(matches!(closed.await.unwrap(), Ok(0) | Err(_)));
    assert_eq!(server.raw(b"GET / HTTP/1.1\r\nHost:").await.status, 0);
    let body = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc";
    assert_eq!(server.raw(body).await.status, 408);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn idle_and_old_connections_end() {
    for limits in [
        Limits {
            idle: Duration::from_millis(200),
            ..Limits::default()
        },
        Limits {
            age: Duration::from_millis(200),
            ..Limits::default()
        },
    ] {
        let (server, _) = start(limits, Duration::ZERO).await;
        let mut stream = server.connect().await;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        // Reads until the server closes the connection.
        assert_eq!(read_answer(&mut stream).await.status, 200);
    }
}

#[tokio::test]
async fn stopping_finishes_requests_in_progress_in_time() {
    let (server, count) = start(Limits::default(), Duration::from_millis(500)).await;
    let idle = server.connect().await;
    let mut busy = server.connect().await;
    busy.write_all(GET).await.unwrap();
    let http2 = tokio::spawn(server.http2().get(server.url("/")).send());
    until("requests", async || count.load(Ordering::SeqCst) > 1).await;
    server.stop.send(true).unwrap();
    assert_eq!(read_answer(&mut busy).await.status, 200);
    assert_eq!(http2.await.unwrap().unwrap().status(), 200);
    tokio::time::timeout(Duration::from_secs(7), server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn stopping_cuts_requests_that_take_too_long() {
    let limits = Limits {
        drain: Duration::from_millis(200),
        ..Limits::default()
    };
    let (server, count) = start(limits, Duration::from_secs(3600)).await;
    let mut busy = server.connect().await;
    busy.write_all(GET).await.unwrap();
    until("a request", async || count.load(Ordering::SeqCst) > 0).await;
    server.stop.send(true).unwrap();
    assert_eq!(read_answer(&mut busy).await.status, 0);
    server.task.await.unwrap();
}

#[tokio::test]
async fn client_certificates_are_required_and_passed_to_the_service() {
    let authority = CertificateAuthority::new("test", validity()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate()).unwrap();
    let clients = ClientAuth::Required(Arc::new(roots));
    let count = Arc::new(AtomicUsize::new(0));
    let service = service(Duration::ZERO, &count);
    let server = TestServer::with(service, authority, &clients, Limits::default()).await;
    assert_eq!(server.raw(GET).await.status, 0);
    let foreign = CertificateAuthority::new("foreign", validity()).unwrap();
    for (authority, status) in [(&server.authority, 200), (&foreign, 0)] {
        let issued = authority.client("me", Some("us"), validity()).unwrap();
        let config = server.client_config(Some(&issued), &["http/1.1"]);
        let mut stream = server.connect_with(config).await.unwrap();
        let _ = stream.write_all(GET).await;
        let answer = read_answer(&mut stream).await;
        assert_eq!(answer.status, status);
        if status == 200 {
            assert_eq!(answer.text(), "1");
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn both_versions_of_tls_and_of_http_are_negotiated() {
    let (server, _) = quick().await;
    for (version, wanted) in [
        (&rustls::version::TLS12, rustls::ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, rustls::ProtocolVersion::TLSv1_3),
    ] {
        let mut roots = RootCertStore::empty();
        roots.add(server.authority.certificate()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        for alpn in [&b"h2"[..], b"http/1.1"] {
            config.alpn_protocols = vec![alpn.to_vec()];
            let stream = server.connect_with(config.clone()).await.unwrap();
            let (_, session) = stream.get_ref();
            assert_eq!(session.protocol_version(), Some(wanted));
            assert_eq!(session.alpn_protocol(), Some(alpn));
        }
    }
}

#[tokio::test]
async fn a_port_without_tls_serves_http1_until_it_stops() {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = tcp.local_addr().unwrap();
    let plain = Listener::without_tls(tcp, Limits::default());
    let service = BoxCloneSyncService::new(service(Duration::ZERO, &Arc::default()));
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(plain.run(service, stopped));
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    stop.send(true).unwrap();
    task.await.unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
}
