//! The listener with misbehaving clients.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::util::BoxCloneSyncService;

mod crowd;
mod front_proxy;
mod rounds;
mod unread;

use super::listener::{Limits, Listener, Service};
use crate::security::settings::VALUES_TIME;
use crate::testing::test_server::{TestServer, read_answer, until};

const HOUR: Duration = Duration::from_secs(3600);
/// Longer than a request takes.
const SHORT: Duration = Duration::from_millis(200);
const KEEP: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// Answers after a delay. Counts requests.
fn service(delay: Duration, count: &Arc<AtomicUsize>) -> Service {
    let count = count.clone();
    Service::new(tower::service_fn(move |_: Request<()>| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(delay).await;
            Ok(Response::new(Full::new(Bytes::from("0"))))
        }
    }))
}

async fn start(limits: Limits, delay: Duration) -> (TestServer, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let server = TestServer::with(service(delay, &count), limits).await;
    (server, count)
}

/// Limits so long that no connection ends by time, except for the change.
fn patient(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits {
        handshake: HOUR,
        idle: HOUR,
        age: HOUR,
        ..Limits::default()
    };
    change(&mut limits);
    limits
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
async fn s094_bodies_are_refused_before_they_are_sent() {
    let (server, count) = quick().await;
    let began = Instant::now();
    for (headers, code) in [
        ("Content-Length: 1", 413),
        ("Content-Length: 1073741824", 413),
        ("Transfer-Encoding: chunked", 400),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n");
        let answer = server.raw(request.as_bytes()).await;
        assert_eq!(answer.status, code, "{headers}");
        assert_eq!(answer.json()["code"], code);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let empty = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(server.raw(empty).await.status, 200);
}

#[tokio::test]
async fn a_body_over_http2_is_refused_and_the_connection_lives() {
    let (server, count) = quick().await;
    let client = server.http2();
    for length in [1, 1 << 20] {
        let request = client.post(server.url("/")).body(vec![0; length]);
        if let Ok(answer) = request.send().await {
            assert_eq!(answer.status(), 413);
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let small = client.get(server.url("/")).send().await;
    assert_eq!(small.unwrap().status(), 200);
}

#[tokio::test]
async fn slow_handshakes_and_slow_heads_are_cut() {
    let limits = patient(|it| (it.handshake, it.idle) = (SHORT, SHORT));
    let (server, count) = start(limits, Duration::ZERO).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(10), silent.read_u8());
    assert!(closed.await.unwrap().is_err());
    assert_eq!(server.raw(b"GET / HTTP/1.1\r\nHost:").await.status, 0);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn idle_and_old_connections_end() {
    for limits in [patient(|it| it.idle = SHORT), patient(|it| it.age = SHORT)] {
        let (server, _) = start(limits, Duration::ZERO).await;
        let mut stream = server.connect().await;
        stream.write_all(KEEP).await.unwrap();
        // Reads until the server closes the connection.
        assert_eq!(read_answer(&mut stream).await.status, 200);
    }
}

#[tokio::test]
async fn a_request_in_progress_is_answered_when_its_connection_is_too_old() {
    let limits = patient(|it| it.age = 5 * SHORT);
    assert!(limits.drain > VALUES_TIME);
    let (server, _) = start(limits, 10 * SHORT).await;
    let answer = server.http2().get(server.url("/")).send().await;
    assert_eq!(answer.unwrap().status(), 200);
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
    let ended = tokio::time::timeout(Duration::from_secs(7), server.task);
    ended.await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn stopping_cuts_requests_that_take_too_long() {
    let (server, count) = start(patient(|it| it.drain = SHORT), HOUR).await;
    let mut busy = server.connect().await;
    busy.write_all(GET).await.unwrap();
    until("a request", async || count.load(Ordering::SeqCst) > 0).await;
    server.stop.send(true).unwrap();
    assert_eq!(read_answer(&mut busy).await.status, 0);
    server.task.await.unwrap();
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
    idle.write_all(KEEP).await.unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    stop.send(true).unwrap();
    task.await.unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
}
