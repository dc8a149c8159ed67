//! A serving certificate with its key, parsed and checked.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error};

use super::authority::Issued;
use crate::x509::{Certificate, Validity, moment};

/// A serving certificate with its key. They match.
#[derive(Clone)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    validity: Validity,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// Puts a chain, the server's certificate first, and a key together. [`Pair::check`] checks
    /// whether they are valid now.
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Error> {
        let leaf = chain.first().ok_or(Error::NoCertificatesPresented)?;
        let leaf = Certificate::read(leaf).map_err(|_| CertificateError::BadEncoding)?;
        Ok(Self {
            validity: leaf.validity(),
            certified: Arc::new(CertifiedKey::from_der(chain, key, &default_provider())?),
        })
    }

    /// An issued certificate with its key.
    ///
    /// # Errors
    /// When the library refuses them.
    pub fn issued(issued: Issued) -> Result<Self, String> {
        let chain = vec![issued.cert.der().clone()];
        let key = PrivatePkcs8KeyDer::from(issued.signing_key);
        Self::new(chain, key.into()).map_err(|error| format!("cannot use the certificate: {error}"))
    }

    /// Checks that the pair is valid at a time.
    ///
    /// # Errors
    /// When it is expired or not valid yet: which, and the remedy.
    pub fn check(&self, now: SystemTime) -> Result<(), String> {
        let (first, last) = (self.validity.not_before, self.validity.not_after);
        if now > last {
            let last = moment(last);
            return Err(format!(
                "the certificate expired at {last}: replace it by a new one"
            ));
        }
        if now < first {
            let first = moment(first);
            return Err(format!(
                "the certificate is not valid before {first}: check the clocks of this machine \
                 and of the machine that issued it"
            ));
        }
        Ok(())
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// The certificates, the server's first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// The validity of the server's certificate.
    pub const fn validity(&self) -> Validity {
        self.validity
    }
}

/// For a server whose pair never changes.
impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certificates::authority::CertificateAuthority;

    #[test]
    fn a_certificate_outside_of_its_validity_is_rejected_with_the_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let minute = Duration::from_secs(60);
        let validity = Validity {
            not_before: now - minute,
            not_after: now + minute,
        };
        let authority = CertificateAuthority::new("test", validity).unwrap();
        let issued = authority.serving(&["a.b.svc"], validity).unwrap();
        let pair = Pair::issued(issued).unwrap();
        let late = pair.check(now + minute * 2).unwrap_err();
        let text = "the certificate expired at 2027-01-15T08:01:00Z: replace it by a new one";
        assert_eq!(late, text);
        let early = pair.check(now - minute * 2).unwrap_err();
        assert!(early.contains("is not valid before"), "{early}");
    }
}
