//! What one listener admits, and for how long.

use std::time::Duration;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections in their handshake. Above this, the oldest of them ends.
    pub handshakes: u32,
    /// Connections after their handshake, without those of front proxies. Above this, the
    /// one that has idled longest ends.
    pub connections: u32,
    /// Connections of verified front proxies. Those above count as other clients': a
    /// kube-apiserver has one over HTTP/2, and 25 idle ones over HTTP/1.1.
    pub front_proxies: u32,
    /// The time limit of a handshake, from the accept on.
    pub handshake: Duration,
    /// The time limit of the header of a connection's first request, and of any body.
    pub read: Duration,
    /// The time limit without a request, after the first one. It is longer than the 90 s
    /// after which Go closes (`net/http` `DefaultTransport`), so that no request arrives
    /// while the server closes.
    pub idle: Duration,
    /// The longest age of a connection, give or take a tenth: an aggregator keeps one
    /// connection for good and would never reach another replica.
    pub age: Duration,
    /// The time limit of requests under way when a connection or the server ends.
    pub drain: Duration,
    /// Bytes of a request's body, which is read and dropped.
    pub body: u64,
    /// The time limit of a client that receives nothing of its answers.
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
