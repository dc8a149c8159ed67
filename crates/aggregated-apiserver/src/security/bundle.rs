//! A bundle of authorities, which verifies client certificates.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;

use crate::x509::{self, Certificate};

pub(crate) static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// The most intermediate certificates of a chain. The search for a path through certificates
/// with equal names doubles with each of them, and needs no credentials.
const MOST_INTERMEDIATES: usize = 3;

/// The authorities of client certificates.
#[derive(Clone, Debug)]
pub struct Bundle(Arc<[CertificateDer<'static>]>);

impl Bundle {
    /// Reads one or more PEM certificates. One broken certificate makes the whole bundle invalid.
    pub(crate) fn parse(pem: &str) -> Result<Self, String> {
        let certificates = x509::from_pem(pem.as_bytes())
            .map_err(|error| format!("the PEM text is broken: {error}"))?;
        if certificates.is_empty() {
            return Err("it holds no certificate".to_owned());
        }
        for (number, der) in (1..).zip(&certificates) {
            let added = RootCertStore::empty().add(der.clone());
            added
                .map_err(|error| error.to_string())
                .and_then(|()| Certificate::read(der).map(drop))
                .map_err(|reason| format!("certificate {number} cannot be used: {reason}"))?;
        }
        Ok(Self(certificates.into()))
    }

    fn anchors(&self) -> impl Iterator<Item = (&CertificateDer<'static>, Certificate<'_>)> {
        let anchors = self.0.iter();
        anchors.filter_map(|der| Some((der, Certificate::read(der).ok()?)))
    }

    /// Checks that an authority that is valid now signed the client certificate `leaf`.
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'static>,
        rest: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Result<(), String> {
        if rest.len() > MOST_INTERMEDIATES {
            return Err(format!(
                "the chain has {} intermediate certificates, and may have {MOST_INTERMEDIATES}",
                rest.len()
            ));
        }
        let mut roots = RootCertStore::empty();
        // webpki does not check the expiry of an authority; Go does.
        for (der, _) in self.anchors().filter(|(_, it)| it.validity().holds(now)) {
            roots.add(der.clone()).map_err(|error| error.to_string())?;
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

    /// Whether the bundles share a public key, even in different certificates.
    pub(crate) fn shares_a_key_with(&self, other: &Self) -> bool {
        let has = |key: &[u8]| other.anchors().any(|(_, it)| it.public_key() == key);
        self.anchors().any(|(_, it)| has(it.public_key()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::authority::{ClientCertificates as _, authority};
    use crate::testing::test_server::validity;

    #[test]
    fn a_long_chain_is_refused_before_a_path_is_searched() {
        let authority = authority("clients");
        let issued = authority.client("admin", None, validity()).unwrap();
        let (leaf, root) = (issued.cert.der(), authority.certificate.clone());
        let bundle = Bundle(Arc::from([root.clone()]));
        let verify = |others: usize| {
            let rest = vec![root.clone(); others];
            bundle.verify(leaf, &rest, SystemTime::now())
        };
        assert_eq!(verify(MOST_INTERMEDIATES), Ok(()));
        let refused = verify(MOST_INTERMEDIATES + 1).unwrap_err();
        assert!(refused.contains("4 intermediate certificates"), "{refused}");
    }
}
