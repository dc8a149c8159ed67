//! The client of a TLS connection, and what its certificate proves.
//!
//! The handshake proves only that the client has the key of its certificate. Each request
//! verifies the certificate against the authorities trusted at that time, so a change of
//! authorities and the certificate's expiry apply to open connections too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use tokio::sync::Notify;

use super::bundle::PROVIDER;
use super::identity::Identity;
use super::trust::{FrontProxy, Trust};
use crate::x509::Certificate;

/// How long a verified origin is cached: the certificate may become valid or expire.
const ORIGIN_LIFE: Duration = Duration::from_secs(1);

/// Requests a client certificate, but accepts clients without one. It trusts no authority;
/// it only checks that the client has the key. kube-apiserver sends its certificate only on
/// request, and other clients must be able to connect without one (docs/protocol.md,
/// "Client certificates").
#[derive(Clone, Copy, Debug, Default)]
pub struct AskForCertificate;

impl ClientCertVerifier for AskForCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The verified origin of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The client sent no certificate.
    Anonymous,
    /// A front proxy, whose headers contain the user.
    FrontProxy,
    /// A user.
    Client(Identity),
    /// No trusted authority signed it; the reason, for the log.
    Unverified(String),
}

/// A TLS connection, as an extension of each of its requests. Clones share the connection's
/// state.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// The client's certificates, leaf first; empty: it sent none.
    pub certificates: Arc<[CertificateDer<'static>]>,
    state: Arc<PeerState>,
}

#[derive(Debug, Default)]
struct PeerState {
    origin: Mutex<Option<VerifiedOrigin>>,
    hang_up: Notify,
}

/// An origin, with the trust and the time of its verification.
#[derive(Debug)]
struct VerifiedOrigin {
    trust: Option<Arc<Trust>>,
    at: SystemTime,
    origin: Arc<Origin>,
}

impl Peer {
    /// A connection whose client sent these certificates.
    pub fn new(address: SocketAddr, certificates: &[CertificateDer<'static>]) -> Self {
        Self {
            address,
            certificates: certificates.into(),
            state: Arc::default(),
        }
    }

    /// The origin that the certificate proves now under `trust`. Cached for a second.
    pub(crate) fn origin(&self, trust: Option<&Arc<Trust>>, now: SystemTime) -> Arc<Origin> {
        let mut known = self.state.origin.lock();
        if let Some(known) = known.as_ref()
            && known.trust.as_ref().map(Arc::as_ptr) == trust.map(Arc::as_ptr)
            && now
                .duration_since(known.at)
                .is_ok_and(|age| age < ORIGIN_LIFE)
        {
            return known.origin.clone();
        }
        let verified = classify(&self.certificates, trust.map(Arc::as_ref), now);
        let origin = Arc::new(verified);
        *known = Some(VerifiedOrigin {
            trust: trust.cloned(),
            at: now,
            origin: origin.clone(),
        });
        origin
    }

    /// Whether the certificate is a front proxy's under `trust`.
    pub fn is_front_proxy(&self, trust: Option<&Arc<Trust>>, now: SystemTime) -> bool {
        matches!(*self.origin(trust, now), Origin::FrontProxy)
    }

    /// Closes the connection after the requests in progress are answered.
    pub(crate) fn hang_up(&self) {
        self.state.hang_up.notify_one();
    }

    pub(crate) async fn hung_up(&self) {
        self.state.hang_up.notified().await;
    }
}

fn classify(chain: &[CertificateDer<'static>], trust: Option<&Trust>, now: SystemTime) -> Origin {
    let Some((leaf, rest)) = chain.split_first() else {
        return Origin::Anonymous;
    };
    let Some(trust) = trust else {
        return Origin::Unverified("no authorities are known yet".to_owned());
    };
    // Each kind of authority is checked separately: an authority of client certificates
    // cannot sign the certificate of a front proxy, whatever its name.
    let none = || "none is trusted".to_owned();
    let proxy = trust.proxy.as_ref().ok_or_else(none);
    let proxy = match proxy.and_then(|proxy| front_proxy(proxy, leaf, rest, now)) {
        Ok(()) => return Origin::FrontProxy,
        Err(why) => why,
    };
    let clients = trust.clients.as_ref().ok_or_else(none);
    let verified = clients.and_then(|bundle| bundle.verify(leaf, rest, now));
    match verified.and_then(|()| identity(leaf)) {
        Ok(identity) => Origin::Client(identity),
        Err(client) => Origin::Unverified(format!(
            "front proxies' authority: {proxy}; clients' authority: {client}"
        )),
    }
}

/// The user of a certificate: CN is the user, each O a group (apiserver
/// `pkg/authentication/request/x509/x509.go`).
fn identity(der: &CertificateDer<'_>) -> Result<Identity, String> {
    let certificate = Certificate::read(der)?;
    let user = certificate.common_name()?;
    Ok(Identity {
        user: user.ok_or("the subject has no common name")?,
        groups: certificate.organizations()?,
        ..Identity::default()
    })
}

/// Checks that the certificate is that of a trusted front proxy.
fn front_proxy(
    proxy: &FrontProxy,
    leaf: &CertificateDer<'static>,
    rest: &[CertificateDer<'static>],
    now: SystemTime,
) -> Result<(), String> {
    proxy.authorities.verify(leaf, rest, now)?;
    let name = Certificate::read(leaf)?.common_name()?.unwrap_or_default();
    if proxy.allowed_names.is_empty() || proxy.allowed_names.contains(&name) {
        Ok(())
    } else {
        Err(format!("{name:?} is not among the allowed names"))
    }
}
