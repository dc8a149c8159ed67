//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use super::activity::{End, InProgress};
use super::body::{self, Unwritten};
use super::limits::Limits;
use super::slots::Slot;
use crate::api::response::refused_early;
use crate::refusal::Refusal;
use crate::security::peer::Peer;
use limits::line_limit::{LineLimit, SECOND};

/// The most header lines and bytes of a request. They are 1.5 times the limits of the security
/// layers, whose refusals have a `Status`. Above these limits hyper and h2 refuse without a body.
const MAX_HEADERS: usize = 1536;
const MAX_HEAD: u32 = 384 * 1024;
/// Concurrent requests on one HTTP/2 connection, and how many of them the client may cancel
/// before they are handled (CVE-2023-44487). A front proxy forwards the requests of many
/// users, and their cancellations.
const STREAMS_OF_FRONT_PROXY: (u32, usize) = (250, 250);
const STREAMS: (u32, usize) = (16, 20);
/// The most streams reset for faults of the client. One more ends the connection (CVE-2025-8671).
const MAX_FAULTS: usize = 100;
/// The most lines per second about refused requests.
const MOST_LINES: u64 = 50;
/// The most bytes of one request body that the client may send in advance.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The silence after which a ping is sent, and the time limit of its answer.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));
/// The most encrypted bytes buffered for a client that reads slowly.
const TLS_BUFFER: usize = 64 * 1024;

/// The service of a listener. It receives requests without their bodies.
pub type Service = BoxCloneSyncService<Request<()>, Response<Full<Bytes>>, Infallible>;

/// Tells whether a connection belongs to a verified front proxy.
pub(super) type IsFrontProxy = Arc<dyn Fn(&Peer) -> bool + Send + Sync>;

pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) lines: LineLimit<()>,
    pub(super) is_front_proxy: IsFrontProxy,
    pub(super) service: Service,
}

pub(super) struct Connection {
    pub(super) address: SocketAddr,
    pub(super) slot: Slot,
    pub(super) shared: Arc<Shared>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Connection {
    pub(super) async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let address = self.address;
        // Responses are written whole, so a delay of small packets has no benefit.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "cannot set TCP_NODELAY");
        }
        let Some(tls) = tls else {
            let peer = Peer::new(address, &[]);
            return self.serve(stream, peer, false).await;
        };
        if let Some(stream) = self.handshake(stream, tls).await {
            let session = stream.get_ref().1;
            let http2 = session.alpn_protocol() == Some(b"h2");
            let certificates = session.peer_certificates().unwrap_or_default();
            let peer = Peer::new(address, certificates);
            self.serve(stream, peer, http2).await;
        }
    }

    /// `None`: the handshake failed, took too long, or its slot was needed.
    async fn handshake(&self, stream: TcpStream, tls: TlsAcceptor) -> Option<TlsStream<TcpStream>> {
        let address = self.address;
        let handshake = tls.accept_with(stream, |tls| tls.set_buffer_limit(Some(TLS_BUFFER)));
        tokio::select! {
            result = tokio::time::timeout(self.shared.limits.handshake, handshake) => match result {
                Ok(Ok(stream)) => return Some(stream),
                Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%address, "TLS handshake took too long"),
            },
            () = self.slot.activity.was_cut() => {
                tracing::debug!(%address, "TLS handshake cut: its slot was needed");
            }
        }
        None
    }

    async fn serve<T>(mut self, stream: T, peer: Peer, http2: bool)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (address, limits) = (self.address, self.shared.limits);
        let is_front_proxy = (self.shared.is_front_proxy)(&peer);
        let streams = match self.slot.handshake_done(is_front_proxy) {
            true => STREAMS_OF_FRONT_PROXY,
            false => STREAMS,
        };
        let builder = builder(http2, streams, &limits);
        let (activity, shared) = (Arc::clone(&self.slot.activity), Arc::clone(&self.shared));
        let on_request = service_fn(|request| {
            respond(request, peer.clone(), activity.begin(), Arc::clone(&shared))
        });
        let mut connection = Box::pin(builder.serve_connection(TokioIo::new(stream), on_request));
        let end = tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    // Such an input was no request. hyper answered it with 400, 414 or 431.
                    let error = error.downcast_ref::<hyper::Error>();
                    if let Some(error) = error.filter(|error| error.is_parse()) {
                        self.shared.log_refusal(error, address);
                    }
                }
                return;
            }
            end = self.end(&peer) => end,
        };
        if end == End::Now {
            return;
        }
        // HTTP/2: GOAWAY; HTTP/1.1: no further request.
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = tokio::time::timeout(limits.drain, connection) => {}
            () = self.slot.activity.was_cut() => {}
        }
    }

    /// Waits until the connection must end. Returns how it ends.
    async fn end(&mut self, peer: &Peer) -> End {
        let (limits, activity) = (&self.shared.limits, &self.slot.activity);
        tokio::select! {
            end = activity.timed_out(limits) => end,
            () = activity.was_cut() => End::Now,
            () = tokio::time::sleep(jittered(limits.age)) => End::Graceful,
            () = peer.hung_up() => End::Graceful,
            _ = self.stop.wait_for(|stop| *stop) => End::Graceful,
        }
    }
}

impl Shared {
    /// Logs a request that the listener refuses before it reaches the service, which logs
    /// its own refusals. Clients can cause such lines easily, so their rate is limited; further
    /// ones are counted. Refusals by the HTTP/2 library have no line, because it does not
    /// report them (h2 `src/proto/streams/recv.rs`).
    fn log_refusal(&self, detail: impl Display, from: SocketAddr) {
        if self.lines.admit(()) {
            tracing::info!(verdict = "malformed", %from, %detail, "request refused");
        }
    }
}

/// The limit of the lines about refused requests.
pub(super) fn lines() -> LineLimit<()> {
    LineLimit::new(MOST_LINES, SECOND, |(), left_out| {
        tracing::info!(left_out, "more requests refused for the same reasons");
    })
}

async fn respond(
    request: Request<Incoming>,
    peer: Peer,
    mut in_progress: InProgress,
    shared: Arc<Shared>,
) -> Result<Response<Full<Unwritten>>, Infallible> {
    let version = request.version();
    let response = match body::receive(request, &shared.limits).await {
        Ok(mut request) => {
            request.extensions_mut().insert(peer);
            shared.service.clone().oneshot(request).await?
        }
        Err((code, why)) => {
            shared.log_refusal(why, peer.address);
            let mut response = refused_early(&Refusal::Rejected(code, why));
            // The server cannot find the next request on this connection.
            if version < Version::HTTP_2 {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            response
        }
    };
    in_progress.answered();
    Ok(Unwritten::answer(response, in_progress))
}

/// The protocol is the one negotiated in the handshake. A detection by the first bytes
/// would wait for a slow client.
fn builder(
    http2: bool,
    (streams, cancelled): (u32, usize),
    limits: &Limits,
) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // This timeout also runs between requests, so it only is a fallback. The time
        // limits of `activity` end a connection without a whole request earlier.
        .header_read_timeout(limits.idle + limits.read)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD)
        .max_concurrent_streams(streams)
        .max_pending_accept_reset_streams(cancelled)
        .max_local_error_reset_streams(MAX_FAULTS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(4 * STREAM_WINDOW)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    if http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}

/// The age, plus or minus a random tenth, so that clients do not all reconnect at once.
fn jittered(age: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1000;
    age * 9 / 10 + age * u32::try_from(random).unwrap_or(0) / 5000
}
