//! The TLS server configuration.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ALL_VERSIONS, Error, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::security::peer::AskForCertificate;

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

/// Which clients may connect.
#[derive(Clone, Debug)]
pub enum ClientAuth {
    /// All; a client certificate is requested, and verified for each request.
    Asked,
    /// Clients with a certificate of one of these authorities.
    Required(Arc<RootCertStore>),
}

/// A configuration with `offer`, whose certificate is resolved at each handshake.
///
/// # Errors
/// When an authority is invalid, or no cipher suite has these versions.
pub fn resolving(
    resolver: Arc<dyn ResolvesServerCert>,
    clients: &ClientAuth,
    offer: &TlsOptions,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(offer.versions)?;
    let builder = match clients {
        ClientAuth::Asked => builder.with_client_cert_verifier(Arc::new(AskForCertificate)),
        ClientAuth::Required(roots) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider)
                .build()
                .map_err(|error| Error::General(error.to_string()))?,
        ),
    };
    let mut config = builder.with_cert_resolver(resolver);
    let protocols: &[&[u8]] = match offer.http2 {
        true => &[b"h2", b"http/1.1"],
        false => &[b"http/1.1"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}
