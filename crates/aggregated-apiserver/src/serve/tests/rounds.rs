//! Hostile clients in repeated rounds: the server frees the memory that they use. The rounds last
//! five minutes, scaled to five seconds, and all time limits are a sixtieth of the real ones.

use std::sync::atomic::Ordering::SeqCst;

use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;

use super::unread::start;
use super::*;
use crate::testing::frames::{CONTINUATION, DATA, END_HEADERS, Frames, PING, SETTINGS};

const FIVE_MINUTES: Duration = Duration::from_secs(5);

fn scaled() -> Limits {
    let real = Limits::default();
    Limits {
        // Handshakes take as long as in reality.
        handshake: Duration::from_secs(2),
        idle: real.idle / 60,
        age: real.age / 60,
        drain: real.drain / 60,
        ..real
    }
}

/// The file descriptors of the server's connections: TCP sockets of the process with its
/// port. Other tests use other ports.
fn descriptors(server: &TestServer) -> usize {
    const LISTENING: &str = "0A";
    let port = format!(":{:04X}", server.address.port());
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let sockets = table.lines().skip(1).filter(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1].ends_with(&port) && fields[3] != LISTENING && fields[9] != "0"
    });
    sockets.count()
}

async fn without_tls(server: &TestServer, bytes: &[u8]) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

async fn http1(server: &TestServer) {
    let lines = "a: b\r\n".repeat(2000);
    let target = format!("/{}", "a".repeat(70_000));
    let path = format!("/{}", "a".repeat(2048));
    let upgrade = "Connection: close, Upgrade\r\nUpgrade: h2c\r\n";
    assert_eq!(server.raw(b"GET / HTTP/1.1\r\nHost:").await.status, 0);
    for (target, headers, body, code) in [
        ("/", "Content-Length: 9\r\n", "a", 413),
        ("/", "Content-Length: 1000000000\r\n", "", 413),
        ("/", "Transfer-Encoding: chunked\r\n", "", 400),
        ("/", upgrade, "", 200),
        ("/", &lines, "", 431),
        (&path, "", "", 414),
        (&target, "", "", 431),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\n{headers}\r\n{body}");
        let status = server.raw(request.as_bytes()).await.status;
        // 0: this machine is too slow for the limits.
        assert!([0, code].contains(&status), "{status}: {request:.70}");
    }
}

/// Never reads its answers.
async fn http2_unread(server: &TestServer) {
    let mut client = Frames::connect(server, 10).await;
    for _ in 0..16 {
        client.get("/").await;
    }
    client.closed().await;
}

async fn http2_cancels(server: &TestServer) {
    let mut client = Frames::connect(server, 1 << 20).await;
    client.get_and_cancel("/", 10_000).await;
    client.closed().await;
}

/// Sends a frame repeatedly, optionally after the start of a request.
async fn http2_flood(server: &TestServer, begin: Option<u8>, kind: u8, payload: &[u8]) {
    let mut client = Frames::connect(server, 1 << 20).await;
    let stream = match begin {
        Some(flags) => client.begin(flags).await,
        None => 0,
    };
    client.flood(kind, stream, payload, 10_000).await;
    client.closed().await;
}

/// Runs all hostile clients once, concurrently.
async fn round(server: &TestServer) {
    tokio::join!(
        without_tls(server, b""),
        without_tls(server, b"GET / HTTP/1.1\r\n\r\n"),
        http1(server),
        http2_unread(server),
        http2_cancels(server),
        http2_flood(server, None, PING, &[0; 8]),
        http2_flood(server, None, SETTINGS, &[]),
        http2_flood(server, Some(0), CONTINUATION, &[0x82; 100]),
        http2_flood(server, Some(END_HEADERS), DATA, b"x"),
    );
}

#[tokio::test]
async fn s107_tasks_answers_and_descriptors_stay_few_in_five_minutes_of_hostile_clients() {
    let (server, alive) = start(scaled()).await;
    let before = Handle::current().metrics().num_alive_tasks();
    let began = Instant::now();
    let mut rounds = 0;
    while began.elapsed() < FIVE_MINUTES || rounds < 2 {
        round(&server).await;
        rounds += 1;
        until("all is given back", async || {
            let tasks = Handle::current().metrics().num_alive_tasks();
            (tasks, alive.now.load(SeqCst), descriptors(&server)) == (before, 0, 0)
        })
        .await;
    }
    assert_eq!(server.raw(GET).await.status, 200);
}
