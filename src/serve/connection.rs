//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::listener::{Limits, Peer, Refuse, Serve, Trusted, Unfit, swallow};
use super::outgoing::{self, Outgoing};
use super::places::{Order, Place, Verdict};
use super::refusals::Refusals;

/// Header lines of a request: each group of a user is one.
const MAX_HEADERS: usize = 1024;
/// Bytes of a request's head.
const MAX_HEAD: usize = 256 * 1024;
/// Requests at a time on one connection.
const MAX_STREAMS: u32 = 250;
/// Streams that a client reset before they were looked at, and streams that we
/// reset for its mistakes; one more ends the connection (CVE-2023-44487,
/// CVE-2025-8671).
const MAX_RESETS: (usize, usize) = (20, 100);
/// Bytes of one body on their way; a whole body has few more.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Silence after which the other end is asked whether it lives, and how long it
/// has to say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));
/// Encrypted bytes held back for a client that reads slowly.
const TLS_BUFFER: usize = 64 * 1024;

/// A connection and all it needs.
pub(super) struct Visit {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) acceptor: TlsAcceptor,
    pub(super) place: Arc<Place>,
    pub(super) limits: Limits,
    pub(super) refuse: Refuse,
    pub(super) refusals: Refusals,
    pub(super) stop: watch::Receiver<bool>,
}

/// What the requests of a connection share.
#[derive(Clone)]
struct Host {
    peer: Peer,
    place: Arc<Place>,
    limits: Limits,
    refuse: Refuse,
    refusals: Refusals,
}

impl Visit {
    /// Serves the connection to its end, or until its place is needed.
    pub(super) async fn run<S: Serve>(self, service: S) {
        let address = self.address;
        let mut order = self.place.order();
        let served = Box::pin(async move {
            let (tls, rest) = self.greet().await?;
            rest.serve(tls, service).await;
            Some(())
        });
        tokio::select! {
            _ = order.wait_for(|order| *order == Order::Cut) => {
                tracing::debug!(%address, "connection cut: its place was needed, too much is held for it, or it took back too many requests");
            }
            _ = served => {}
        }
    }

    /// The handshake; `None` when it failed or took too long.
    async fn greet(mut self) -> Option<(TlsStream<TcpStream>, Lodger)> {
        let (address, limits) = (self.address, self.limits);
        // Answers are written whole: nothing is gained by waiting for more.
        if let Err(error) = self.stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "cannot set TCP_NODELAY");
        }
        let greeting = async {
            // Until it speaks nothing is set up for it.
            tokio::select! {
                ready = self.stream.readable() => ready?,
                _ = self.stop.wait_for(|stop| *stop) => return Err(ErrorKind::ConnectionAborted.into()),
            }
            self.place.spoke();
            let accept = self
                .acceptor
                .accept_with(self.stream, |tls| tls.set_buffer_limit(Some(TLS_BUFFER)));
            accept.await
        };
        let tls = match tokio::time::timeout(limits.handshake, greeting).await {
            Ok(Ok(tls)) => tls,
            Ok(Err(error)) => {
                tracing::debug!(%address, %error, "TLS handshake failed");
                return None;
            }
            Err(_) => {
                tracing::debug!(%address, "TLS handshake took too long");
                return None;
            }
        };
        let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
        let peer = Peer::new(address, certificates);
        let host = Host {
            peer,
            place: self.place,
            limits,
            refuse: self.refuse,
            refusals: self.refusals,
        };
        let stop = self.stop;
        Some((tls, Lodger { host, stop }))
    }
}

/// A connection after its handshake.
struct Lodger {
    host: Host,
    stop: watch::Receiver<bool>,
}

impl Lodger {
    async fn serve<S: Serve>(self, tls: TlsStream<TcpStream>, service: S) {
        let (host, mut stop) = (self.host, self.stop);
        let Host { place, limits, .. } = &host;
        let address = host.peer.address;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let on_request = service_fn(|request: Request<Incoming>| {
            let (service, host) = (service.clone(), host.clone());
            async move { host.respond(request, service).await }
        });
        let builder = builder(http2, limits);
        let mut connection = Box::pin(builder.serve_connection(TokioIo::new(tls), on_request));
        let mut order = place.order();
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    host.refusals.ended(&*error, address);
                }
                return;
            }
            () = place.idled(limits) => {
                // It asked for nothing: there is nobody to say goodbye to.
                if !place.has_asked() {
                    tracing::debug!(%address, "no request came in time");
                    return;
                }
            }
            () = place.stalled(limits.stall) => {
                tracing::debug!(%address, "answers were there and not taken");
                if !place.is_trusted() {
                    return;
                }
            }
            () = tokio::time::sleep(jittered(limits.age)) => {}
            () = host.peer.hung_up() => {}
            _ = order.wait_for(|order| *order != Order::Stay) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        place.leaves();
        // HTTP/2: GOAWAY; HTTP/1.1: no further request.
        Pin::as_mut(&mut connection).graceful_shutdown();
        if tokio::time::timeout(limits.drain, connection)
            .await
            .is_err()
        {
            tracing::debug!(%address, "connection cut: a request took too long to end");
        }
    }
}

impl Host {
    async fn respond<S: Serve>(
        self,
        request: Request<Incoming>,
        service: S,
    ) -> Result<Response<Outgoing>, Infallible> {
        let version = request.version();
        let mut busy = self.place.begin(weight(&request));
        let response = match self.take_in(request).await {
            Ok(request) => {
                busy.received();
                let response = service.oneshot(request).await?;
                busy.judge(verdict(&response));
                response
            }
            Err(unfit) => {
                let (code, why) = match unfit {
                    Unfit::Refused(code, why) => (code, why),
                    // Nobody gets this answer.
                    Unfit::TakenBack => {
                        return Ok(self.send((self.refuse)(StatusCode::BAD_REQUEST)));
                    }
                };
                busy.judge(Verdict::Stranger);
                self.refusals.answered(code, why, self.peer.address);
                let mut response = (self.refuse)(code);
                // What follows on this connection may be anything.
                if version < Version::HTTP_2 {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                response
            }
        };
        Ok(self.send(response))
    }

    fn send(&self, response: Response<Full<Bytes>>) -> Response<Outgoing> {
        outgoing::send(response, &self.place)
    }

    /// The request without its body, once there is room for its answer.
    async fn take_in(&self, request: Request<Incoming>) -> Result<Request<()>, Unfit> {
        const UNREAD: &str = "its client does not read the answers it has";
        let mut request = swallow(request, self.limits).await?;
        let room = tokio::time::timeout(self.limits.read, self.place.room());
        if room.await.is_err() {
            return Err(Unfit::Refused(StatusCode::TOO_MANY_REQUESTS, UNREAD));
        }
        request.extensions_mut().insert(self.peer.clone());
        Ok(request)
    }
}

/// Bytes of a request's head.
fn weight(request: &Request<Incoming>) -> usize {
    let headers = request.headers().iter();
    let lines = headers.map(|(name, value)| name.as_str().len() + value.len());
    let target = request.uri().path_and_query();
    lines.sum::<usize>() + target.map_or(0, |target| target.as_str().len())
}

/// What an answer says about who asked. A metric or object that is not there
/// is an answer too.
fn verdict(response: &Response<Full<Bytes>>) -> Verdict {
    if response.extensions().get::<Trusted>().is_some() {
        return Verdict::Trusted;
    }
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_FOUND {
        Verdict::Client
    } else {
        Verdict::Stranger
    }
}

/// The protocol was agreed on in the handshake, so none is guessed from the
/// first bytes, which a slow client could hold back.
fn builder(http2: bool, limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // It also runs between requests, so it is only the last resort: a place
        // is lost earlier by silence.
        .header_read_timeout(limits.idle + limits.read)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESETS.0)
        .max_local_error_reset_streams(MAX_RESETS.1)
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

/// A tenth more or less, so that replicas do not shed all clients at once.
fn jittered(age: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1000;
    age * 9 / 10 + age * u32::try_from(random).unwrap_or(0) / 5000
}
