//! The TLS server configuration.

use std::sync::Arc;

use rustls::server::ResolvesServerCert;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{ALL_VERSIONS, Error, ServerConfig, SupportedProtocolVersion};

use crate::security::bundle::PROVIDER;

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

/// A configuration with `offer`, whose certificate is resolved at each handshake. `clients`
/// decides which clients may connect; see [`crate::security::peer::AskForCertificate`].
///
/// # Errors
/// When no cipher suite has these versions.
pub fn resolving(
    resolver: Arc<dyn ResolvesServerCert>,
    clients: Arc<dyn ClientCertVerifier>,
    offer: &TlsOptions,
) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(offer.versions)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(resolver);
    let protocols: &[&[u8]] = match offer.http2 {
        true => &[b"h2", b"http/1.1"],
        false => &[b"http/1.1"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}
