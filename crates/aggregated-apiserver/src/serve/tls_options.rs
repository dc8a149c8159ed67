//! The offered TLS versions and protocols.

use rustls::version::TLS13;
use rustls::{ALL_VERSIONS, SupportedProtocolVersion};

/// TLS 1.3 only.
pub const ONLY_TLS13: &[&SupportedProtocolVersion] = &[&TLS13];

/// The TLS settings offered to clients.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Whether HTTP/2 is offered beside HTTP/1.1.
    pub http2: bool,
    /// The versions.
    pub versions: &'static [&'static SupportedProtocolVersion],
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            http2: true,
            versions: ALL_VERSIONS,
        }
    }
}
