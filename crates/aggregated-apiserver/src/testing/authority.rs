//! The TLS settings of a test's server.

use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::test_server::validity;
use crate::certificates::authority::{
    CertificateAuthority, ExtendedKeyUsagePurpose, Issued, Validity, subject,
};
use crate::certificates::pair::Pair;
use crate::security::bundle::PROVIDER;
use crate::security::peer::AskForCertificate;
use crate::serve::tls::resolving;

pub fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name, validity()).unwrap()
}

/// A store that contains only this authority.
pub fn roots(authority: &CertificateAuthority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.clone()).unwrap();
    roots
}

/// The TLS settings of a server on 127.0.0.1 without HTTP/2. With `clients`, it accepts only
/// client certificates of that authority.
pub fn server_of(
    authority: &CertificateAuthority,
    clients: Option<&CertificateAuthority>,
) -> Arc<ServerConfig> {
    let issued = authority.serving(&["127.0.0.1"], validity()).unwrap();
    let clients: Arc<dyn ClientCertVerifier> = match clients {
        None => Arc::new(AskForCertificate),
        Some(authority) => {
            let roots = Arc::new(roots(authority));
            WebPkiClientVerifier::builder_with_provider(roots, PROVIDER.clone())
                .build()
                .unwrap()
        }
    };
    let pair = Arc::new(Pair::issued(issued).unwrap());
    let config = resolving(pair, clients, rustls::ALL_VERSIONS, true).unwrap();
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols.clear();
    Arc::new(config)
}

/// Issues client certificates.
pub trait ClientCertificates {
    /// Kubernetes reads the common name as the user, and the organization as a group.
    fn client(&self, user: &str, group: Option<&str>, validity: Validity)
    -> Result<Issued, String>;
}

impl ClientCertificates for CertificateAuthority {
    fn client(
        &self,
        user: &str,
        group: Option<&str>,
        validity: Validity,
    ) -> Result<Issued, String> {
        let mut params = subject(user, validity);
        if let Some(group) = group {
            let name = &mut params.distinguished_name;
            name.push(rcgen::DnType::OrganizationName, group);
        }
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// The private key of a certificate.
pub fn private_key(issued: &Issued) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der()).into()
}
