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
    /// The time limit of a request's header over HTTP/1.1, starting when the former response
    /// was written. Go closes after 90 s (`net/http` `DefaultTransport`). This limit is
    /// longer, so that no request arrives while the server closes.
    pub idle: Duration,
    /// The longest age of a connection, plus or minus a tenth. An aggregator never closes a
    /// connection, and would otherwise never reach another replica. A client that does not read
    /// its responses holds their permits as long.
    pub age: Duration,
    /// The time limit of requests in progress when a connection or the server ends. It is
    /// longer than a request may take.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 512,
            connections: 64,
            handshake: Duration::from_secs(3),
            idle: Duration::from_secs(120),
            age: Duration::from_secs(600),
            drain: VALUES_TIME + Duration::from_secs(1),
        }
    }
}
