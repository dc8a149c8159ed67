//! The limits of one listener.

use std::time::Duration;

use crate::security::settings::VALUES_TIME;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A connection in its handshake ends when this many newer ones were accepted.
    pub handshakes: usize,
    /// A connection that is no front proxy's ends when this many newer ones were opened. Each
    /// may hold 0.3 MiB: headers, and the table of header compression, which keeps whole frames.
    pub connections: usize,
    /// The time limit of a handshake, starting at the accept.
    pub handshake: Duration,
    /// The time limit of the header of a connection's first request.
    pub read: Duration,
    /// The time limit without a request, after the first one. Go closes after 90 s
    /// (`net/http` `DefaultTransport`). This limit is longer, so that no request arrives
    /// while the server closes.
    pub idle: Duration,
    /// The longest age of a connection, plus or minus a tenth. An aggregator never closes a
    /// connection, and would otherwise never reach another replica.
    pub age: Duration,
    /// The time limit of requests in progress when a connection or the server ends. It is
    /// longer than a request may take.
    pub drain: Duration,
    /// The time limit of a client that receives no part of its responses.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 512,
            connections: 64,
            handshake: Duration::from_secs(3),
            read: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            age: Duration::from_secs(600),
            drain: VALUES_TIME + Duration::from_secs(1),
            stall: Duration::from_secs(10),
        }
    }
}
