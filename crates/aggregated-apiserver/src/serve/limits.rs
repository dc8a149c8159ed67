//! The limits of one listener.

use std::time::Duration;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections in their handshake. Above this, the oldest one ends.
    pub handshakes: u32,
    /// Connections after their handshake, except those of front proxies. Above this, the
    /// one that has been idle longest ends.
    pub connections: u32,
    /// Connections of verified front proxies. Further ones count as those of other clients.
    /// A kube-apiserver has one over HTTP/2, and 25 idle ones over HTTP/1.1.
    pub front_proxies: u32,
    /// The time limit of a handshake, starting at the accept.
    pub handshake: Duration,
    /// The time limit of the header of a connection's first request, and of any body.
    pub read: Duration,
    /// The time limit without a request, after the first one. Go closes after 90 s
    /// (`net/http` `DefaultTransport`). This limit is longer, so that no request arrives
    /// while the server closes.
    pub idle: Duration,
    /// The longest age of a connection, plus or minus a tenth. An aggregator never closes a
    /// connection, and would otherwise never reach another replica.
    pub age: Duration,
    /// The time limit of requests in progress when a connection or the server ends.
    pub drain: Duration,
    /// The most bytes of a request's body, which is read and dropped.
    pub body: usize,
    /// The time limit of a client that receives no part of its responses.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 512,
            connections: 1024,
            front_proxies: 128,
            handshake: Duration::from_secs(3),
            read: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            age: Duration::from_secs(600),
            drain: Duration::from_secs(5),
            body: 64 * 1024,
            stall: Duration::from_secs(10),
        }
    }
}
