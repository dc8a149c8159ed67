//! A serving certificate with its key, parsed and checked.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;

use super::authority::Anchor;
use crate::x509::{self, Certificate, Validity, moment};

/// A serving certificate with its key. They match, and the certificate has a DNS name.
#[derive(Clone)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    names: Arc<[String]>,
    validity: Validity,
    place: Arc<str>,
    /// Chain and key as PEM.
    texts: Arc<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("names", &self.names)
            .field("not_after", &moment(self.validity.not_after))
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// Reads a pair. Each text comes with its origin: a path, or a key of a Secret.
    /// [`Pair::check`] checks whether the pair is valid now.
    ///
    /// # Errors
    /// When a text cannot be read, certificate and key do not match, or no client would
    /// accept the certificate at any time. The error has place, fault and remedy.
    pub fn read(
        (chain, place): (&[u8], &str),
        (key, place_of_key): (&[u8], &str),
    ) -> Result<Self, String> {
        let unreadable = |reason: String| {
            format!(
                "{place}: no certificate chain: {reason}: write the serving certificate as PEM, \
                 followed by the intermediate certificates"
            )
        };
        let no_key = |reason: String| {
            format!(
                "{place_of_key}: no private key: {reason}: write the key of the serving \
                 certificate as PEM, not encrypted"
            )
        };
        let texts = Arc::new((chain.to_vec(), key.to_vec()));
        let chain = x509::from_pem(chain).map_err(|error| unreadable(error.to_string()))?;
        let leaf = chain
            .first()
            .ok_or_else(|| unreadable("no PEM block of a certificate".to_owned()))?;
        let leaf = Certificate::read(leaf).map_err(unreadable)?;
        let (names, validity) = (leaf.dns_names().map_err(unreadable)?, leaf.validity());
        // kube-apiserver ignores the common name.
        if names.is_empty() {
            return Err(format!(
                "{place}: the certificate has no subjectAltName with a DNS name: make one for \
                 SERVICE.NAMESPACE.svc"
            ));
        }
        if !leaf.is_for_servers().map_err(unreadable)? {
            return Err(format!(
                "{place}: the certificate is not for servers: make one with the extended key \
                 usage serverAuth"
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| no_key(error.to_string()))?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => format!(
                "{place_of_key}: this is not the key of the certificate in {place}: replace both \
                 by one pair"
            ),
            rustls::Error::InvalidCertificate(reason) => unreadable(reason.to_string()),
            other => no_key(other.to_string()),
        })?;
        Ok(Self {
            certified: Arc::new(certified),
            names: names.into(),
            validity,
            place: place.into(),
            texts,
        })
    }

    /// Checks that the pair is valid at a time.
    ///
    /// # Errors
    /// When it is expired or not valid yet: which, and the remedy.
    pub fn check(&self, now: SystemTime) -> Result<(), String> {
        let (place, first) = (&self.place, self.validity.not_before);
        let last = self.validity.not_after;
        if now > last {
            let last = moment(last);
            return Err(format!(
                "{place}: the certificate expired at {last}: replace it by a new one"
            ));
        }
        if now < first {
            let first = moment(first);
            return Err(format!(
                "{place}: the certificate is not valid before {first}: check the clocks of this \
                 machine and of the machine that issued it"
            ));
        }
        Ok(())
    }

    /// Checks that a client that trusts these authorities accepts the pair for a name, as
    /// kube-apiserver does for `SERVICE.NAMESPACE.svc`.
    pub(crate) fn verify<'a>(
        &self,
        trusted: impl IntoIterator<Item = &'a Anchor>,
        name: &str,
        now: SystemTime,
    ) -> Result<(), String> {
        let text = |error: rustls::Error| error.to_string();
        let mut roots = RootCertStore::empty();
        for anchor in trusted {
            roots.add(anchor.certificate.clone()).map_err(text)?;
        }
        let provider = Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build();
        let verifier = verifier.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let (leaf, rest) = self.chain().split_first().ok_or("an empty chain")?;
        let verified = verifier.verify_server_cert(leaf, rest, &name, &[], x509::unix_time(now));
        verified.map(drop).map_err(text)
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    pub(crate) fn texts(&self) -> (&[u8], &[u8]) {
        (&self.texts.0, &self.texts.1)
    }

    /// The DNS names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) const fn validity(&self) -> Validity {
        self.validity
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certificates::authority::{CertificateAuthority, Issued};

    fn validity(now: SystemTime) -> Validity {
        Validity {
            not_before: now - Duration::from_secs(60),
            not_after: now + Duration::from_secs(60),
        }
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn issued(names: &[&str]) -> Issued {
        let authority = CertificateAuthority::new("test", validity(now())).unwrap();
        authority.serving(names, &[], validity(now())).unwrap()
    }

    fn read(chain: &str, key: &str) -> Result<Pair, String> {
        let (chain, key) = (chain.as_bytes(), key.as_bytes());
        Pair::read((chain, "/tls/tls.crt"), (key, "/tls/tls.key"))
    }

    #[test]
    fn a_certificate_outside_of_its_validity_is_rejected_with_the_time() {
        let issued = issued(&["a.b.svc"]);
        let pair = read(&issued.certificate_pem, &issued.key_pem).unwrap();
        let late = pair.check(now() + Duration::from_secs(61)).unwrap_err();
        let text = "/tls/tls.crt: the certificate expired at 2027-01-15T08:01:00Z: replace it by a new one";
        assert_eq!(late, text);
        let early = pair.check(now() - Duration::from_secs(61)).unwrap_err();
        assert!(early.contains("is not valid before"), "{early}");
    }

    #[test]
    fn garbage_is_refused_with_its_place() {
        let issued = issued(&["a.b.svc"]);
        let half = &issued.certificate_pem[..100];
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for chain in ["", "garbage", half, broken, &issued.key_pem] {
            let error = read(chain, &issued.key_pem).unwrap_err();
            assert!(error.contains("no certificate chain"), "{error}");
            assert!(error.starts_with("/tls/tls.crt: "), "{error}");
        }
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for key in ["", "garbage", broken, &issued.certificate_pem] {
            let error = read(&issued.certificate_pem, key).unwrap_err();
            assert!(error.contains("no private key"), "{error}");
            assert!(error.starts_with("/tls/tls.key: "), "{error}");
        }
    }

    #[test]
    fn a_certificate_without_a_name_or_for_clients_is_refused() {
        let nameless = issued(&[]);
        let error = read(&nameless.certificate_pem, &nameless.key_pem).unwrap_err();
        assert!(error.contains("no subjectAltName"), "{error}");
        let mut params = rcgen::CertificateParams::new(["a.b.svc".to_owned()]).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let client = params.self_signed(&key).unwrap();
        let error = read(&client.pem(), &key.serialize_pem()).unwrap_err();
        assert!(error.contains("is not for servers"), "{error}");
    }
}
