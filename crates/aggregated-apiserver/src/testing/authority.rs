//! A certificate authority for one test.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use rustls::{RootCertStore, ServerConfig};

use super::test_server::validity;
use crate::certificates::authority::{CertificateAuthority, Issued};
use crate::serve::tls::{ClientAuth, server_config};

/// An authority that signs certificates for servers on 127.0.0.1 and clients.
pub struct TestAuthority(CertificateAuthority);

/// A certificate with its key, as PEM.
pub struct TestCertificate {
    pub certificate: String,
    pub key: String,
}

impl From<Issued> for TestCertificate {
    fn from(issued: Issued) -> Self {
        Self {
            certificate: issued.certificate_pem,
            key: issued.key_pem,
        }
    }
}

impl TestAuthority {
    pub fn new(name: &str) -> Self {
        Self(CertificateAuthority::new(name, validity()).unwrap())
    }

    /// The authority's certificate as PEM.
    pub fn pem(&self) -> String {
        self.0.certificate_pem()
    }

    /// A client's certificate and key.
    pub fn client(&self, name: &str) -> TestCertificate {
        self.0.client(name, None, validity()).unwrap().into()
    }

    /// A client's certificate with these parameters, and its key.
    pub fn sign(&self, params: CertificateParams) -> TestCertificate {
        let issued = self.0.sign(params, ExtendedKeyUsagePurpose::ClientAuth);
        issued.unwrap().into()
    }

    /// The TLS settings of a server without HTTP/2. With `clients`, it accepts only client
    /// certificates of that authority.
    pub fn server(&self, clients: Option<&Self>) -> Arc<ServerConfig> {
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let issued = self.0.serving(&[], &[localhost], validity()).unwrap();
        let clients = match clients {
            None => ClientAuth::None,
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.certificate()).unwrap();
                ClientAuth::Required(roots.into())
            }
        };
        let chain = vec![issued.certificate.clone()];
        let config = server_config(chain, issued.key(), &clients).unwrap();
        let mut config = Arc::unwrap_or_clone(config);
        config.alpn_protocols.clear();
        Arc::new(config)
    }
}
