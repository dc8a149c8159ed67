//! A certificate authority for one test.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// An authority that signs certificates for servers on 127.0.0.1 and clients.
pub struct TestAuthority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
pub struct TestCertificate {
    pub certificate: String,
    pub key: String,
}

impl TestAuthority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's certificate as PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    fn issue(&self, usage: ExtendedKeyUsagePurpose, name: &str) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A client's certificate and key.
    pub fn client(&self, name: &str) -> TestCertificate {
        let (certificate, key) = self.issue(ExtendedKeyUsagePurpose::ClientAuth, name);
        TestCertificate {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A client's certificate with these parameters, and its key.
    pub fn sign(&self, mut params: CertificateParams) -> TestCertificate {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        TestCertificate {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// A server's settings; with `clients`, only certificates of that authority are
    /// accepted.
    pub fn server(&self, clients: Option<&Self>) -> Arc<rustls::ServerConfig> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (certificate, key) = self.issue(ExtendedKeyUsagePurpose::ServerAuth, "server");
        let builder = rustls::ServerConfig::builder();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.certificate.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder(roots.into()).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
            .into()
    }
}
