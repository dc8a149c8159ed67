//! The accept loop (`protocol.md` §7.3): every wait has a limit, every
//! resource a cap, and one broken client costs nobody else anything.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::connection;
use super::places::Places;
use super::refusals::Refusals;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. When they run out the longest idle one ends.
    pub connections: u32,
    /// Of them those that were not served yet: in their handshake, before
    /// their first request, or refused. When they run out the oldest ends,
    /// silent ones before others.
    pub handshakes: u32,
    /// For a handshake, from the connection on.
    pub handshake: Duration,
    /// For the head of a connection's first request, and for any body.
    pub read: Duration,
    /// Without a request, for a client that was served: longer than the 90 s
    /// after which Go closes (`net/http` `DefaultTransport`), so that no
    /// request meets our end.
    pub idle: Duration,
    /// A connection's age, give or take a tenth: an aggregator keeps one
    /// connection for good and would never find another replica.
    pub age: Duration,
    /// For requests under way when a connection or the server ends.
    pub drain: Duration,
    /// Bytes of a request's body; it is never looked at.
    pub body: u64,
    /// Bytes of answers that a connection may leave unread before its further
    /// requests wait, for [`Limits::read`] at most.
    pub unread: usize,
    /// For a connection whose client takes nothing of answers that are there.
    pub stall: Duration,
    /// Bytes that requests under way and answers unread hold on all
    /// connections of clients that are not trusted. When there are more, some
    /// of those connections end, the heaviest first.
    pub held: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshakes: 512,
            handshake: Duration::from_secs(3),
            read: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            age: Duration::from_secs(600),
            drain: Duration::from_secs(5),
            body: 64 * 1024,
            unread: 4 << 20,
            stall: Duration::from_secs(10),
            held: 64 << 20,
        }
    }
}

/// How a request is refused before it reaches the service: 400 for ambiguous
/// framing, 408 for a slow body, 413 for a large one, 429 while the client does
/// not read the answers it has.
pub type Refuse = fn(StatusCode) -> Response<Full<Bytes>>;

/// What the TLS connection of a request showed, an extension of every request,
/// and what an answer may say of the client, an extension of that.
pub use crate::security::peer::{Peer, Trusted};

/// What a listener serves: requests without their bodies.
pub trait Serve:
    Service<
        Request<()>,
        Response = Response<Full<Bytes>>,
        Error = Infallible,
        Future: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Serve for S where
    S: Service<
            Request<()>,
            Response = Response<Full<Bytes>>,
            Error = Infallible,
            Future: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// Accepts connections.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: Arc<ArcSwap<ServerConfig>>,
    limits: Limits,
    refuse: Refuse,
    refusals: Refusals,
    places: Arc<Places>,
    leaving: Option<watch::Receiver<bool>>,
}

impl Listener {
    /// Listens on `tcp` with the configuration that `tls` holds at the time of
    /// each handshake.
    #[must_use]
    pub fn new(
        tcp: TcpListener,
        tls: Arc<ArcSwap<ServerConfig>>,
        limits: Limits,
        refuse: Refuse,
    ) -> Self {
        Self {
            tcp,
            tls,
            limits,
            refuse,
            refusals: Refusals::default(),
            places: Arc::new(Places::new(&limits)),
            leaving: None,
        }
    }

    /// Tells how many connections are open, at any time.
    pub fn connections(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let places = Arc::clone(&self.places);
        move || places.count()
    }

    /// When `leaving` turns true, connections that are open then say goodbye,
    /// and new ones are served on: a client that keeps its connection for good
    /// is sent to another replica before this one stops. It must turn true
    /// before the `stop` of [`Listener::run`] does.
    #[must_use]
    pub fn leaving(self, leaving: watch::Receiver<bool>) -> Self {
        Self {
            leaving: Some(leaving),
            ..self
        }
    }

    /// Serves until `stop` turns true (or its sender is gone), then says
    /// goodbye on every connection and waits for requests under way, for
    /// [`Limits::drain`] at most.
    pub async fn run<S: Serve>(self, service: S, stop: watch::Receiver<bool>) {
        let places = Arc::clone(&self.places);
        let mut stopped = stop.clone();
        loop {
            let (stream, address) = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                accepted = self.accept(&places) => accepted,
            };
            let visit = connection::Visit {
                stream,
                address,
                acceptor: TlsAcceptor::from(self.tls.load_full()),
                place: Arc::new(places.enter()),
                limits: self.limits,
                refuse: self.refuse,
                refusals: self.refusals.clone(),
                stop: self.end_of_connections(&stop),
            };
            tokio::spawn(visit.run(service.clone()));
        }
        drop(self.tcp);
        // Every connection has the same limit; the second is for scheduling.
        let grace = self.limits.drain + Duration::from_secs(1);
        if tokio::time::timeout(grace, places.emptied()).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    }

    /// What ends a connection that begins now.
    fn end_of_connections(&self, stop: &watch::Receiver<bool>) -> watch::Receiver<bool> {
        match &self.leaving {
            Some(leaving) if !*leaving.borrow() => leaving.clone(),
            _ => stop.clone(),
        }
    }

    /// The next connection. Running out of descriptors passes when some are
    /// closed: end one and try again, never give up.
    async fn accept(&self, places: &Places) -> (TcpStream, SocketAddr) {
        let mut failures = 0_u32;
        loop {
            match self.tcp.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    if failures.is_multiple_of(50) {
                        tracing::error!(%error, "cannot accept connections: if files ran out, raise the limit (ulimit -n)");
                    }
                    failures = failures.wrapping_add(1);
                    places.make_room();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
}

/// Whether an accept error concerns one connection that came and went.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// Why a request does not reach the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is refused, for this reason.
    Refused(StatusCode, &'static str),
    /// The client took it back, or went away.
    TakenBack,
}

/// Takes in a request's body and lets go of it.
pub(super) async fn swallow(
    request: Request<Incoming>,
    limits: Limits,
) -> Result<Request<()>, Unfit> {
    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    const TOO_LARGE: Unfit = Unfit::Refused(StatusCode::PAYLOAD_TOO_LARGE, "its body is too large");
    const SLOW: Unfit = Unfit::Refused(StatusCode::REQUEST_TIMEOUT, "its body took too long");
    const CODED: Unfit = Unfit::Refused(StatusCode::BAD_REQUEST, "it has a transfer coding");

    // Two lengths make two readings of where the next request begins. The
    // HTTP/1.1 parser keeps only one of the two headers, so that a chunked
    // body is refused with or without the other: no request has a body here.
    if request
        .headers()
        .contains_key(http::header::TRANSFER_ENCODING)
    {
        return Err(CODED);
    }
    let (parts, mut body) = request.into_parts();
    if body.size_hint().lower() > limits.body {
        return Err(TOO_LARGE);
    }
    let read = async {
        let mut left = limits.body;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Unfit::TakenBack)?;
            let len = frame.data_ref().map_or(0, Bytes::len) as u64;
            left = left.checked_sub(len).ok_or(TOO_LARGE)?;
        }
        Ok(())
    };
    let read = tokio::time::timeout(limits.read, read);
    read.await.map_err(|_| SLOW)??;
    Ok(Request::from_parts(parts, ()))
}
