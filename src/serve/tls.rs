//! The TLS server configuration.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ResolvesServerCert, WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig};

use super::offer::{Offer, Oldest};
use crate::security::peer::AskForCertificate;

/// Why there is no server configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The text holds no certificate.
    #[error("no certificate in the PEM text")]
    NoCertificate,
    /// The text is no PEM, or lacks a private key.
    #[error("cannot read the PEM text: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// Key and certificate do not fit, or neither is usable.
    #[error("cannot use the certificate and key: {0}")]
    Unusable(#[from] rustls::Error),
    /// The clients' authorities are unusable.
    #[error("cannot use the client authorities: {0}")]
    Clients(#[from] rustls::server::VerifierBuilderError),
}

/// Which clients may connect.
#[derive(Clone, Debug)]
pub enum ClientAuth {
    /// Any; no certificate is asked for.
    None,
    /// Any; a certificate is asked for and what it is worth is decided later.
    Asked,
    /// Those with a certificate of one of these authorities.
    Required(Arc<RootCertStore>),
}

/// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
///
/// # Errors
/// When key and certificate do not fit or an authority is unusable.
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clients: &ClientAuth,
) -> Result<Arc<ServerConfig>, TlsError> {
    let offer = Offer::default();
    let mut config = builder(clients, &offer)?.with_single_cert(chain, key)?;
    config.alpn_protocols = protocols(offer.http2);
    Ok(Arc::new(config))
}

/// What is offered, with a certificate that is asked for at each handshake.
///
/// # Errors
/// When an authority is unusable, or no suite is of an offered version.
pub fn resolving(
    resolver: Arc<dyn ResolvesServerCert>,
    clients: &ClientAuth,
    offer: &Offer,
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = builder(clients, offer)?.with_cert_resolver(resolver);
    config.alpn_protocols = protocols(offer.http2);
    Ok(Arc::new(config))
}

fn protocols(http2: bool) -> Vec<Vec<u8>> {
    let all: [&[u8]; 2] = [b"h2", b"http/1.1"];
    let from = usize::from(!http2);
    all[from..].iter().map(|name| name.to_vec()).collect()
}

fn builder(
    clients: &ClientAuth,
    offer: &Offer,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, TlsError> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.clone_from(&offer.suites);
    let provider = Arc::new(provider);
    let versions: &[&rustls::SupportedProtocolVersion] = match offer.oldest {
        Oldest::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        Oldest::Tls13 => &[&rustls::version::TLS13],
    };
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
    Ok(match clients {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Asked => builder.with_client_cert_verifier(Arc::new(AskForCertificate)),
        ClientAuth::Required(roots) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider).build()?,
        ),
    })
}

/// Reads a certificate chain, leaf first.
///
/// # Errors
/// When the text is no PEM or holds no certificate.
pub fn chain_from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    Ok(chain)
}

/// Reads a private key: PKCS #8, PKCS #1 or SEC 1.
///
/// # Errors
/// When the text is no PEM or holds no private key.
pub fn key_from_pem(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    Ok(PrivateKeyDer::from_pem_slice(pem)?)
}
