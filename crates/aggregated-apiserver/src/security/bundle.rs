//! A bundle of authorities, and the verification of certificates by it.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;

use crate::x509::{self, Certificate, Validity};

pub(super) static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// Authorities of clients' certificates.
#[derive(Clone, Debug)]
pub struct Bundle {
    anchors: Arc<[TrustedAnchor]>,
}

#[derive(Debug)]
struct TrustedAnchor {
    certificate: CertificateDer<'static>,
    public_key: Vec<u8>,
    validity: Validity,
}

impl Bundle {
    /// Reads PEM certificates, one or more. If one is broken, no part of the bundle is used.
    pub(crate) fn parse(pem: &str) -> Result<Self, String> {
        let certificates = x509::from_pem(pem.as_bytes())
            .map_err(|error| format!("the PEM text is broken: {error}"))?;
        if certificates.is_empty() {
            return Err("it holds no certificate".to_owned());
        }
        let anchors = certificates.into_iter().zip(1..).map(|(der, number)| {
            let read = TrustedAnchor::read(der);
            read.map_err(|reason| format!("certificate {number} cannot be used: {reason}"))
        });
        Ok(Self {
            anchors: anchors.collect::<Result<_, _>>()?,
        })
    }

    /// Verifies that an authority, valid now, signed the leaf for a client.
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'static>,
        rest: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Result<(), String> {
        let mut roots = RootCertStore::empty();
        // webpki ignores an authority's expiry; Go checks it.
        for anchor in self
            .anchors
            .iter()
            .filter(|anchor| anchor.validity.holds(now))
        {
            let added = roots.add(anchor.certificate.clone());
            added.map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("no authority is valid now".to_owned());
        }
        WebPkiClientVerifier::builder_with_provider(roots.into(), PROVIDER.clone())
            .build()
            .map_err(|error| error.to_string())?
            .verify_client_cert(leaf, rest, x509::unix_time(now))
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// Whether a key is in both bundles, whatever the certificates.
    pub(crate) fn shares_a_key_with(&self, other: &Self) -> bool {
        let keys = |bundle: &Self, key: &[u8]| {
            bundle.anchors.iter().any(|anchor| anchor.public_key == key)
        };
        self.anchors
            .iter()
            .any(|anchor| keys(other, &anchor.public_key))
    }
}

impl TrustedAnchor {
    fn read(certificate: CertificateDer<'static>) -> Result<Self, String> {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| error.to_string())?;
        let read = Certificate::read(&certificate)?;
        Ok(Self {
            public_key: read.public_key().to_vec(),
            validity: read.validity(),
            certificate,
        })
    }
}
