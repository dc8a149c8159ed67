//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
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

use super::limits::Limits;
use super::newest::{Displaced, Newest};
use crate::api::response::refused_early;
use crate::refusal::Refusal;
use crate::security::InFlightPermit;
use crate::security::peer::Peer;

/// The most streams reset for faults of the client. One more ends the connection (CVE-2025-8671).
const MAX_FAULTS: usize = 100;
/// The most bytes that a client may send on a stream in advance. No request has a body.
const STREAM_WINDOW: u32 = 1024;
/// The longest path, in bytes: more than any resource's.
const MOST_PATH: usize = 2 << 10;
/// The silence after which a ping is sent, and the time limit of its answer.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));
/// The most encrypted bytes buffered for a client that reads slowly.
const TLS_BUFFER: usize = 64 * 1024;

/// The service of a listener. It receives requests without their bodies.
pub type Service = BoxCloneSyncService<Request<()>, Response<Full<Bytes>>, Infallible>;

/// Tells whether a connection belongs to a verified front proxy.
pub type IsFrontProxy = Arc<dyn Fn(&Peer) -> bool + Send + Sync>;

/// What a client may send before the security layers decide about it.
struct ClientLimits {
    /// Concurrent requests on one HTTP/2 connection.
    streams: u32,
    /// Requests that the client may cancel before they are handled (CVE-2023-44487).
    cancelled: usize,
    /// Bytes of a request's header. Above this, hyper and h2 refuse without a body.
    head: u32,
    /// Lines of a request's header over HTTP/1.1, likewise.
    head_lines: usize,
}

/// A front proxy forwards the requests of many users, and their cancellations. Each group of
/// a user is one line.
const FRONT_PROXY: ClientLimits = ClientLimits {
    streams: 250,
    cancelled: 250,
    head: 256 * 1024,
    head_lines: 1024,
};

/// Anyone can open such a connection, so all of them together must hold little.
const OTHER_CLIENT: ClientLimits = ClientLimits {
    streams: 16,
    cancelled: 20,
    head: 16 * 1024,
    head_lines: 128,
};

pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) is_front_proxy: IsFrontProxy,
    pub(super) others: Newest,
    pub(super) service: Service,
}

pub(super) struct Connection {
    pub(super) address: SocketAddr,
    pub(super) shared: Arc<Shared>,
    pub(super) stop: watch::Receiver<bool>,
    /// Counts the open connections.
    pub(super) _open: watch::Receiver<()>,
}

impl Connection {
    pub(super) async fn run(
        self,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        displaced: Displaced,
    ) {
        let address = self.address;
        // Responses are written whole, so a delay of small packets has no benefit.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else {
            let peer = Peer::new(address, &[]);
            return self.serve(stream, peer, false).await;
        };
        if let Some(stream) = self.handshake(stream, tls, displaced).await {
            let session = stream.get_ref().1;
            let http2 = session.alpn_protocol() == Some(b"h2");
            let certificates = session.peer_certificates().unwrap_or_default();
            let peer = Peer::new(address, certificates);
            self.serve(stream, peer, http2).await;
        }
    }

    /// `None`: the handshake failed, took too long, or was displaced.
    async fn handshake(
        &self,
        stream: TcpStream,
        tls: TlsAcceptor,
        displaced: Displaced,
    ) -> Option<TlsStream<TcpStream>> {
        let address = self.address;
        let handshake = tls.accept_with(stream, |tls| tls.set_buffer_limit(Some(TLS_BUFFER)));
        tokio::select! {
            result = tokio::time::timeout(self.shared.limits.handshake, handshake) => match result {
                Ok(Ok(stream)) => return Some(stream),
                Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%address, "TLS handshake took too long"),
            },
            _ = displaced => tracing::debug!(%address, "TLS handshake displaced by newer ones"),
        }
        None
    }

    async fn serve<T>(self, stream: T, peer: Peer, http2: bool)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if (self.shared.is_front_proxy)(&peer) {
            return self.exchange(stream, peer, http2, true).await;
        }
        let displaced = self.shared.others.enter();
        tokio::select! {
            () = self.exchange(stream, peer, http2, false) => {}
            _ = displaced => {}
        }
    }

    /// Serves requests until the connection ends. The limits of HTTP/2 are those of a front
    /// proxy if it was one at the handshake.
    async fn exchange<T>(mut self, stream: T, peer: Peer, http2: bool, is_front_proxy: bool)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (address, limits) = (self.address, self.shared.limits);
        let on_request = service_fn(|request| {
            // The certificate may prove something else since the trusted authorities changed.
            if (self.shared.is_front_proxy)(&peer) != is_front_proxy {
                peer.hang_up();
            }
            let service = self.shared.service.clone();
            respond(request, peer.clone(), is_front_proxy, service)
        });
        let client = if is_front_proxy {
            FRONT_PROXY
        } else {
            OTHER_CLIENT
        };
        let builder = builder(http2, &client, &limits);
        let mut connection = Box::pin(builder.serve_connection(TokioIo::new(stream), on_request));
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    // An input that was no request was answered with 400, 414 or 431 by hyper.
                    tracing::debug!(%address, error, "connection failed");
                }
                return;
            }
            () = tokio::time::sleep(jittered(limits.age)) => {}
            () = peer.hung_up() => {}
            _ = self.stop.wait_for(|stop| *stop) => {}
        }
        // HTTP/2: GOAWAY; HTTP/1.1: no further request.
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(limits.drain, connection).await;
    }
}

async fn respond(
    request: Request<Incoming>,
    peer: Peer,
    is_front_proxy: bool,
    service: Service,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let version = request.version();
    let response = match without_body(request) {
        Ok(mut request) => {
            request.extensions_mut().insert(peer);
            service.oneshot(request).await?
        }
        Err(refusal) => {
            tracing::debug!(address = %peer.address, why = refusal.detail(), "request refused");
            // The table of header compression keeps the frames of former requests in memory.
            if !is_front_proxy {
                peer.hang_up();
            }
            let mut response = refused_early(&refusal);
            // The server does not look for the next request on this connection.
            if version < Version::HTTP_2 {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            response
        }
    };
    Ok(until_written(response))
}

/// The bytes of a response, with the permit that the security layers added to its extensions.
/// hyper drops a body after it has read all bytes, but h2 keeps the bytes until the client can
/// receive them, so that the bytes hold the permit.
fn until_written(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    struct Unwritten {
        bytes: Bytes,
        _permit: InFlightPermit,
    }
    impl AsRef<[u8]> for Unwritten {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    let permit = response.extensions_mut().remove().flatten();
    response.map(|body| {
        Full::new(Bytes::from_owner(Unwritten {
            bytes: body.into_inner().unwrap_or_default(),
            _permit: permit,
        }))
    })
}

/// Refuses a request with a body or a long path at once. No request needs a body, and one that
/// is awaited would hold the request's header in memory. A review of the access keeps the path.
fn without_body(request: Request<Incoming>) -> Result<Request<()>, Refusal> {
    // With both `Content-Length` and `Transfer-Encoding`, two programs may disagree about
    // the start of the next request. hyper's parser drops one of the two headers.
    if request.headers().contains_key(header::TRANSFER_ENCODING) {
        let why = "the request's framing is ambiguous";
        return Err(Refusal::Rejected(StatusCode::BAD_REQUEST, why));
    }
    if request.uri().path().len() > MOST_PATH {
        let why = "the path is longer than 2 KiB";
        return Err(Refusal::Rejected(StatusCode::URI_TOO_LONG, why));
    }
    if !request.body().is_end_stream() {
        let why = "requests must not have a body";
        return Err(Refusal::Rejected(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(request.map(|_| ()))
}

/// The protocol is the one negotiated in the handshake. A detection by the first bytes
/// would wait for a slow client.
fn builder(http2: bool, client: &ClientLimits, limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // It also runs between requests.
        .header_read_timeout(limits.idle)
        .max_headers(client.head_lines)
        .max_buf_size(client.head as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(client.head)
        .max_concurrent_streams(client.streams)
        .max_pending_accept_reset_streams(client.cancelled)
        .max_local_error_reset_streams(MAX_FAULTS)
        .initial_stream_window_size(STREAM_WINDOW)
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
