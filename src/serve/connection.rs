//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::listener::{Limits, Peer, Refuse, Serve, swallow};

/// Header lines of a request: each group of a user is one.
const MAX_HEADERS: usize = 1024;
/// Bytes of a request's head.
const MAX_HEAD: usize = 256 * 1024;
/// Requests at a time on one connection.
const MAX_STREAMS: u32 = 250;
/// Silence after which the other end is asked whether it lives, and how long it
/// has to say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));
/// Encrypted bytes held back for a client that reads slowly.
const TLS_BUFFER: usize = 256 * 1024;

/// What a connection is given besides its service.
pub(super) struct Setting {
    pub(super) limits: Limits,
    pub(super) refuse: Refuse,
    pub(super) stop: watch::Receiver<bool>,
}

/// The handshake; `None` when it failed or took too long.
pub(super) async fn handshake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    limits: Limits,
) -> Option<TlsStream<TcpStream>> {
    // Answers are written whole: nothing is gained by waiting for more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "cannot set TCP_NODELAY");
    }
    let accept = acceptor.accept_with(stream, |tls| tls.set_buffer_limit(Some(TLS_BUFFER)));
    match tokio::time::timeout(limits.handshake, accept).await {
        Ok(Ok(tls)) => Some(tls),
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!(%address, "TLS handshake took too long");
            None
        }
    }
}

/// Serves a connection to its end.
pub(super) async fn serve<S: Serve>(
    tls: TlsStream<TcpStream>,
    address: SocketAddr,
    service: S,
    setting: Setting,
) {
    let (_, session) = tls.get_ref();
    let builder = builder(session.alpn_protocol() == Some(b"h2"), setting.limits);
    let peer = Peer::new(address, session.peer_certificates().unwrap_or_default());
    let activity = Arc::new(Activity::new());
    let (limits, refuse, mut stop) = (setting.limits, setting.refuse, setting.stop);
    let on_request = service_fn(|request: Request<Incoming>| {
        let (service, peer) = (service.clone(), peer.clone());
        let busy = activity.begin();
        async move {
            let response = respond(request, service, peer, limits, refuse).await;
            drop(busy);
            response
        }
    });
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(tls), on_request));
    tokio::select! {
        result = connection.as_mut() => {
            if let Err(error) = result {
                tracing::debug!(%address, %error, "connection ended");
            }
            return;
        }
        () = activity.idle_for(limits.idle) => {}
        () = tokio::time::sleep(jittered(limits.age)) => {}
        () = peer.hung_up() => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    // HTTP/2: GOAWAY; HTTP/1.1: no further request.
    Pin::as_mut(&mut connection).graceful_shutdown();
    if tokio::time::timeout(limits.drain, connection)
        .await
        .is_err()
    {
        tracing::debug!(%address, "connection cut: a request took too long to end");
    }
}

async fn respond<S: Serve>(
    request: Request<Incoming>,
    mut service: S,
    peer: Peer,
    limits: Limits,
    refuse: Refuse,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let version = request.version();
    match swallow(request, limits).await {
        Ok(mut request) => {
            request.extensions_mut().insert(peer);
            std::future::poll_fn(|context| service.poll_ready(context)).await?;
            service.call(request).await
        }
        Err(code) => {
            let mut response = refuse(code);
            // What follows on this connection may be anything.
            if version < Version::HTTP_2 {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response)
        }
    }
}

/// The protocol was agreed on in the handshake, so none is guessed from the
/// first bytes, which a slow client could hold back.
fn builder(http2: bool, limits: Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    if http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}

/// A tenth more or less, so that replicas do not shed all clients at once.
fn jittered(age: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1000;
    age * 9 / 10 + age * u32::try_from(random).unwrap_or(0) / 5000
}

/// When a connection last had a request.
struct Activity {
    began: Instant,
    under_way: AtomicUsize,
    last_millis: AtomicU64,
}

struct Busy(Arc<Activity>);

impl Activity {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            under_way: AtomicUsize::new(0),
            last_millis: AtomicU64::new(0),
        }
    }

    fn begin(self: &Arc<Self>) -> Busy {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    async fn idle_for(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.last_millis.load(Ordering::Relaxed));
            let busy = self.under_way.load(Ordering::Relaxed) > 0;
            let end = self.began + last + limit;
            let now = Instant::now();
            if !busy && end <= now {
                return;
            }
            tokio::time::sleep_until(if busy { now + limit } else { end }).await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let millis = self.0.began.elapsed().as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.0.last_millis.store(millis, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
