//! Many clients at once: silent, slow and hostile clients do not affect others.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::testing::frames::Frames;

/// Longer than any finite wait of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request on a connection that stays open. Returns whether it was answered.
async fn ask(stream: &mut TlsStream<TcpStream>) -> bool {
    if stream.write_all(KEEP).await.is_err() {
        return false;
    }
    let mut answer = Vec::new();
    let read = async {
        while !answer.ends_with(b"\r\n\r\n0") {
            if stream.read_buf(&mut answer).await.unwrap_or(0) == 0 {
                return false;
            }
        }
        answer.starts_with(b"HTTP/1.1 200")
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("neither an answer nor an end")
}

/// Waits until the other end closes.
async fn closed<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    let _ = tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the server does not close");
}

/// Sends a byte a second until the server closes.
async fn drip<S: AsyncWrite + Unpin>(mut stream: S, text: &'static [u8]) {
    for byte in text {
        if stream.write_all(&[*byte]).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn connect(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.address)
        .await
        .expect("a connection (if files ran out: ulimit -n 4096)")
}

async fn slow(server: &TestServer, kind: usize) {
    const HELLO: &[u8] = &[
        0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let (alpn, text) = match kind % 3 {
        0 => return drop(tokio::spawn(drip(connect(server).await, HELLO))),
        1 => ("http/1.1", KEEP),
        _ => ("h2", &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]),
    };
    let config = server.client_config(None, &[alpn]);
    if let Ok(stream) = server.connect_with(config).await {
        tokio::spawn(drip(stream, text));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s096_many_silent_and_slow_clients_do_not_affect_others() {
    let (server, _) = start(patient(|it| it.connections = 600), Duration::ZERO).await;
    let server = Arc::new(server);
    let mut known = server.connect().await;
    assert!(ask(&mut known).await);
    let mut silent = Vec::new();
    for _ in 0..500 {
        silent.push(connect(&server).await);
    }
    for kind in 0..200 {
        slow(&server, kind).await;
    }
    let mut clients = JoinSet::new();
    for _ in 0..200 {
        let server = Arc::clone(&server);
        clients.spawn(async move { server.raw(GET).await.status });
    }
    let answers = tokio::time::timeout(PATIENCE, clients.join_all());
    assert_eq!(answers.await.expect("answers"), [200; 200]);
    assert!(ask(&mut known).await);
    // There were too many handshakes: the first one was ended.
    closed(&mut silent[0]).await;
    drop(silent);
    server.stop.send(true).unwrap();
}

#[tokio::test]
async fn s095_rapid_resets_end_their_connection_and_no_other() {
    let (server, count) = start(patient(|_| ()), Duration::from_millis(1)).await;
    let client = server.http2();
    let other = async || client.get(server.url("/")).send().await.unwrap().status();
    assert_eq!(other().await, 200);
    let mut attacker = Frames::connect(&server, 1 << 20).await;
    attacker.get_and_cancel("/", 10_000).await;
    attacker.closed().await;
    assert!(count.load(Ordering::SeqCst) < 1000);
    assert_eq!(other().await, 200);
}

#[tokio::test]
async fn the_oldest_connection_ends_when_there_are_too_many() {
    let (server, _) = start(patient(|it| it.connections = 2), Duration::ZERO).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        assert!(ask(&mut stream).await);
        streams.push(stream);
    }
    closed(&mut streams[0]).await;
    assert!(ask(&mut streams[1]).await);
    assert!(ask(&mut streams[2]).await);
}
