//! The TLS server configuration.

use std::sync::Arc;

use rustls::server::ResolvesServerCert;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{Error, ServerConfig, SupportedProtocolVersion};

use crate::security::bundle::PROVIDER;

/// TLS 1.3 only.
pub const ONLY_TLS13: &[&SupportedProtocolVersion] = &[&TLS13];

/// A configuration with these versions of TLS, and with HTTP/2 beside HTTP/1.1 if `http2` is
/// set. Its certificate is resolved at each handshake. `clients` decides which clients may
/// connect; see [`crate::security::peer::AskForCertificate`].
///
/// # Errors
/// When no cipher suite has these versions.
pub fn resolving(
    resolver: Arc<dyn ResolvesServerCert>,
    clients: Arc<dyn ClientCertVerifier>,
    versions: &[&'static SupportedProtocolVersion],
    http2: bool,
) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(resolver);
    let protocols: &[&[u8]] = match http2 {
        true => &[b"h2", b"http/1.1"],
        false => &[b"http/1.1"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}
