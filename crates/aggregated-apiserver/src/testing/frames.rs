//! A client that writes HTTP/2 frames itself, which no library permits.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_rustls::client::TlsStream;

use tokio::net::TcpStream;

use super::test_server::{TestServer, until};
use crate::certificates::authority::Issued;

pub const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

const CANCEL: [u8; 4] = [0, 0, 0, 8];

const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub struct Frames {
    stream: WriteHalf<TlsStream<TcpStream>>,
    next: u32,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Streams on which an answer began, and those that ended.
    began: AtomicUsize,
    ended: AtomicUsize,
    closed: AtomicBool,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

impl Frames {
    /// A connection whose streams each have this window in bytes towards the client.
    pub async fn connect(server: &TestServer, window: u32) -> Self {
        Self::connect_as(server, None, window).await
    }

    /// The same, with a client certificate.
    pub async fn connect_as(server: &TestServer, client: Option<&Issued>, window: u32) -> Self {
        let config = server.client_config(client, &["h2"]);
        let stream = server.connect_with(config).await.unwrap();
        let (reader, mut stream) = tokio::io::split(stream);
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut settings = vec![0, 4];
        settings.extend(window.to_be_bytes());
        hello.extend(frame(SETTINGS, 0, 0, &settings));
        stream.write_all(&hello).await.unwrap();
        let seen = Arc::<Seen>::default();
        tokio::spawn(read(reader, Arc::clone(&seen)));
        Self {
            stream,
            next: 1,
            seen,
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Requests a path. Returns the stream; `None`: the server has closed.
    pub async fn get(&mut self, path: &str) -> Option<u32> {
        let (stream, headers) = self.headers(path);
        self.write(&headers).await.then_some(stream)
    }

    /// Sends and cancels `times` requests in one write. Returns whether they were sent.
    pub async fn get_and_cancel(&mut self, path: &str, times: usize) -> bool {
        let mut bytes = Vec::new();
        for _ in 0..times {
            let (stream, headers) = self.headers(path);
            bytes.extend(headers);
            bytes.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        }
        self.write(&bytes).await
    }

    fn headers(&mut self, path: &str) -> (u32, Vec<u8>) {
        let stream = self.next;
        self.next += 2;
        // GET over https at x (RFC 7541 §6): the path as a literal.
        let length = u8::try_from(path.len()).unwrap();
        let mut block = vec![0x82, 0x87, 0x41, 1, b'x', 4, length];
        block.extend(path.as_bytes());
        let headers = frame(HEADERS, END_STREAM | END_HEADERS, stream, &block);
        (stream, headers)
    }

    /// Sends a frame `times` times.
    pub async fn flood(&mut self, kind: u8, stream: u32, payload: &[u8], times: usize) {
        self.write(&frame(kind, 0, stream, payload).repeat(times))
            .await;
    }

    /// Sends the start of a request, whose header or body is to be continued.
    pub async fn begin(&mut self, flags: u8) -> u32 {
        let (stream, mut headers) = self.headers("/");
        headers[4] = flags;
        self.write(&headers).await;
        stream
    }

    /// Extends the window of a stream, or of the connection (0), by `bytes`.
    pub async fn open(&mut self, stream: u32, bytes: u32) {
        self.write(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()))
            .await;
    }

    fn is_closed(&self) -> bool {
        self.seen.closed.load(SeqCst)
    }

    /// Waits until `count` answers have begun.
    pub async fn began(&self, count: usize) {
        let seen = &self.seen;
        until("heads of answers", async || {
            seen.began.load(SeqCst) >= count
        })
        .await;
    }

    /// Waits until `count` streams have ended.
    pub async fn answered(&self, count: usize) {
        let seen = &self.seen;
        until("answers", async || {
            seen.ended.load(SeqCst) >= count || self.is_closed()
        })
        .await;
        assert_eq!(seen.ended.load(SeqCst), count, "the server closed");
    }

    /// Waits until the server closes the connection.
    pub async fn closed(&self) {
        until("the server closes", async || self.is_closed()).await;
    }
}

/// Reads frames until the end. Pings stay unanswered: the client lives only a few seconds.
async fn read(mut stream: ReadHalf<TlsStream<TcpStream>>, seen: Arc<Seen>) {
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        if head[3] == HEADERS {
            seen.began.fetch_add(1, SeqCst);
        }
        if matches!(head[3], DATA | HEADERS) && head[4] & END_STREAM != 0 {
            seen.ended.fetch_add(1, SeqCst);
        }
    }
    seen.closed.store(true, SeqCst);
}
