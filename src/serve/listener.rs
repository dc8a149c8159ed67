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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::connection;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; more wait in the kernel's queue.
    pub connections: u32,
    /// Of them those that have not yet shown a complete handshake.
    pub handshakes: u32,
    /// For a handshake.
    pub handshake: Duration,
    /// For the head of a request, and for its body.
    pub read: Duration,
    /// Without a request, then the connection ends.
    pub idle: Duration,
    /// A connection's age, give or take a tenth: an aggregator keeps one
    /// connection for good and would never find another replica.
    pub age: Duration,
    /// For requests under way when a connection or the server ends.
    pub drain: Duration,
    /// Bytes of a request's body; it is never looked at.
    pub body: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshakes: 256,
            handshake: Duration::from_secs(10),
            read: Duration::from_secs(10),
            idle: Duration::from_secs(90),
            age: Duration::from_secs(600),
            drain: Duration::from_secs(5),
            body: 64 * 1024,
        }
    }
}

/// How a request is refused before it reaches the service: 400 for ambiguous
/// framing, 408 for a slow body, 413 for a large one.
pub type Refuse = fn(StatusCode) -> Response<Full<Bytes>>;

/// What the TLS connection of a request showed; an extension of every request.
pub use crate::security::peer::Peer;

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
        }
    }

    /// Serves until `stop` turns true (or its sender is gone), then says
    /// goodbye on every connection and waits for requests under way, for
    /// [`Limits::drain`] at most.
    pub async fn run<S: Serve>(self, service: S, stop: watch::Receiver<bool>) {
        let connections = Arc::new(Semaphore::new(self.limits.connections as usize));
        let handshakes = Arc::new(Semaphore::new(self.limits.handshakes as usize));
        let mut stopped = stop.clone();
        loop {
            let accepted = async {
                let places = places(&connections, &handshakes).await?;
                Some((places, self.accept().await))
            };
            let (places, (stream, address)) = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                accepted = accepted => match accepted {
                    Some(accepted) => accepted,
                    None => break,
                },
            };
            let acceptor = TlsAcceptor::from(self.tls.load_full());
            let setting = connection::Setting {
                limits: self.limits,
                refuse: self.refuse,
                stop: stop.clone(),
            };
            let service = service.clone();
            tokio::spawn(async move {
                let (connection, handshake) = places;
                let tls = connection::handshake(acceptor, stream, address, setting.limits).await;
                drop(handshake);
                if let Some(tls) = tls {
                    connection::serve(tls, address, service, setting).await;
                }
                drop(connection);
            });
        }
        drop(self.tcp);
        // Every connection has the same limit; the second is for scheduling.
        let grace = self.limits.drain + Duration::from_secs(1);
        let all_done = connections.acquire_many(self.limits.connections);
        if tokio::time::timeout(grace, all_done).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    }

    /// The next connection. Running out of descriptors passes when some are
    /// closed: sleep and try again, never give up.
    async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.tcp.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

async fn places(connections: &Arc<Semaphore>, handshakes: &Arc<Semaphore>) -> Option<Places> {
    let connection = connections.clone().acquire_owned().await.ok()?;
    let handshake = handshakes.clone().acquire_owned().await.ok()?;
    Some((connection, handshake))
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

/// Takes in a request's body and lets go of it; the status to refuse the
/// request with, if it has to be.
pub(super) async fn swallow(
    request: Request<Incoming>,
    limits: Limits,
) -> Result<Request<()>, StatusCode> {
    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    // Two lengths make two readings of where the next request begins. The
    // HTTP/1.1 parser keeps only one of the two headers, so that a chunked
    // body is refused with or without the other: no request has a body here.
    if request
        .headers()
        .contains_key(http::header::TRANSFER_ENCODING)
    {
        return Err(StatusCode::BAD_REQUEST);
    }
    let (parts, mut body) = request.into_parts();
    if body.size_hint().lower() > limits.body {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let read = async {
        let mut left = limits.body;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
            let len = frame.data_ref().map_or(0, Bytes::len) as u64;
            left = left.checked_sub(len).ok_or(StatusCode::PAYLOAD_TOO_LARGE)?;
        }
        Ok::<(), StatusCode>(())
    };
    tokio::time::timeout(limits.read, read)
        .await
        .map_err(|_| StatusCode::REQUEST_TIMEOUT)??;
    Ok(Request::from_parts(parts, ()))
}
