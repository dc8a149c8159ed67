//! The accept loop. Every wait has a time limit and all state has a size limit, so that a
//! faulty client does not affect others.
//!
//! The memory of all connections is limited: a connection has a number of concurrent
//! requests, a request has a limited header, and a large response holds the permit of its
//! request until it is written.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::connection::{Connection, Shared};
use super::newest::Newest;

pub use super::connection::{IsFrontProxy, Service};
pub use super::limits::Limits;
/// The client of a connection, as an extension of every request.
pub use crate::security::peer::Peer;

/// Accepts connections.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    /// Recognizes front proxies, after the handshake and at each request. Other clients do not
    /// displace them, and they have more concurrent requests and longer headers. By default no
    /// client is one.
    pub is_front_proxy: IsFrontProxy,
    /// Its receivers are the open connections.
    open: Arc<watch::Sender<()>>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("tcp", &self.tcp)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens on `tcp` with TLS.
    pub fn new(tcp: TcpListener, tls: Arc<ServerConfig>, limits: Limits) -> Self {
        Self {
            tls: Some(tls.into()),
            ..Self::without_tls(tcp, limits)
        }
    }

    /// Listens on `tcp` with HTTP/1.1 and without TLS.
    pub fn without_tls(tcp: TcpListener, limits: Limits) -> Self {
        Self {
            tcp,
            tls: None,
            limits,
            is_front_proxy: Arc::new(|_| false),
            open: Arc::default(),
        }
    }

    /// Serves until `stop` turns true (or its sender is dropped). Then every connection
    /// ends, and requests in progress have at most [`Limits::drain`].
    pub async fn run(self, service: Service, stop: watch::Receiver<bool>) {
        let handshakes = Newest::new(self.limits.handshakes);
        let shared = Arc::new(Shared {
            limits: self.limits,
            is_front_proxy: Arc::clone(&self.is_front_proxy),
            others: Newest::new(self.limits.connections),
            service,
        });
        let mut stopped = stop.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                accepted = self.tcp.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let connection = Connection {
                        address,
                        shared: Arc::clone(&shared),
                        stop: stop.clone(),
                        _open: self.open.subscribe(),
                    };
                    tokio::spawn(connection.run(stream, self.tls.clone(), handshakes.enter()));
                }
                // Only this connection is broken.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // Such as no free file descriptor.
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections: if files ran out, raise the limit (ulimit -n)");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        drop(self.tcp);
        // Every connection has the same limit; the additional second is for scheduling.
        let grace = self.limits.drain + Duration::from_secs(1);
        if tokio::time::timeout(grace, self.open.closed())
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time");
        }
    }
}
