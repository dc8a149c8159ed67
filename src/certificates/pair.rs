//! A serving certificate with its key, parsed and checked.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

/// Where the two texts of a pair come from, for messages: paths, or keys of a
/// Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The certificate chain.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// Why a pair cannot be served: where, what is wrong, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The chain's text is not one.
    #[error(
        "{place}: no certificate chain: {reason}: write the serving certificate as PEM, then \
         those that lead to its authority"
    )]
    Certificate {
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The key's text is not one.
    #[error(
        "{place}: no private key: {reason}: write the key of the serving certificate as PEM, not \
         encrypted"
    )]
    Key {
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// They are of two pairs.
    #[error(
        "{key}: this is not the key of the certificate in {certificate}: replace both by one pair"
    )]
    Mismatch {
        /// Where the certificate is.
        certificate: String,
        /// Where the key is.
        key: String,
    },
    /// Its time is over.
    #[error("{place}: the certificate expired at {at}: replace it by a new one")]
    Expired {
        /// Where.
        place: String,
        /// Its last moment.
        at: String,
    },
    /// Its time has not come.
    #[error(
        "{place}: the certificate is not valid before {at}: check the clocks of this machine and \
         of its maker"
    )]
    NotYet {
        /// Where.
        place: String,
        /// Its first moment.
        at: String,
    },
    /// kube-apiserver looks at alternative names only (`protocol.md` §3.1).
    #[error(
        "{place}: the certificate has no subjectAltName with a DNS name: make one for \
         SERVICE.NAMESPACE.svc"
    )]
    NoName {
        /// Where.
        place: String,
    },
    /// Clients refuse it for servers.
    #[error(
        "{place}: the certificate is not for servers: make one with the extended key usage serverAuth"
    )]
    NotServer {
        /// Where.
        place: String,
    },
}

/// A serving certificate with its key. Fits, has a name, is for servers.
#[derive(Clone)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    names: Arc<[String]>,
    not_before: SystemTime,
    not_after: SystemTime,
    place: Arc<str>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("names", &self.names)
            .field("not_after", &moment(self.not_after))
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// Reads a pair. Whether its time has come is [`Pair::check`]'s to say.
    ///
    /// # Errors
    /// When a text cannot be read, the two do not fit, or clients would refuse
    /// the certificate at any time.
    pub fn read(chain: &[u8], key: &[u8], origin: &Origin) -> Result<Self, PairError> {
        let place = || origin.certificate.clone();
        let unreadable = |reason: String| PairError::Certificate {
            place: place(),
            reason,
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| unreadable(error.to_string()))?;
        let leaf = chain
            .first()
            .ok_or_else(|| unreadable("no PEM block of a certificate".to_owned()))?;
        let facts = Facts::of(leaf).map_err(unreadable)?;
        if facts.names.is_empty() {
            return Err(PairError::NoName { place: place() });
        }
        if !facts.for_servers {
            return Err(PairError::NotServer { place: place() });
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| PairError::Key {
            place: origin.key.clone(),
            reason: error.to_string(),
        })?;
        let certified = certified(chain, key, origin)?;
        Ok(Self {
            certified: Arc::new(certified),
            names: facts.names.into(),
            not_before: facts.not_before,
            not_after: facts.not_after,
            place: origin.certificate.as_str().into(),
        })
    }

    /// Whether the pair may be served at a moment.
    ///
    /// # Errors
    /// When its time is over or has not come.
    pub fn check(&self, now: SystemTime) -> Result<(), PairError> {
        if now > self.not_after {
            return Err(PairError::Expired {
                place: self.place.to_string(),
                at: moment(self.not_after),
            });
        }
        if now < self.not_before {
            return Err(PairError::NotYet {
                place: self.place.to_string(),
                at: moment(self.not_before),
            });
        }
        Ok(())
    }

    /// For rustls.
    #[must_use]
    pub fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// The certificates, the serving one first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// The DNS names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The first moment.
    #[must_use]
    pub const fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// The last moment.
    #[must_use]
    pub const fn not_after(&self) -> SystemTime {
        self.not_after
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    origin: &Origin,
) -> Result<CertifiedKey, PairError> {
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => PairError::Mismatch {
            certificate: origin.certificate.clone(),
            key: origin.key.clone(),
        },
        rustls::Error::InvalidCertificate(reason) => PairError::Certificate {
            place: origin.certificate.clone(),
            reason: reason.to_string(),
        },
        other => PairError::Key {
            place: origin.key.clone(),
            reason: other.to_string(),
        },
    })
}

/// What we read in a certificate.
pub(super) struct Facts {
    pub(super) subject: String,
    pub(super) names: Vec<String>,
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
    pub(super) authority: bool,
    /// An authority as [`super::authority::Authority::new`] makes them.
    pub(super) plain_authority: bool,
    for_servers: bool,
}

impl Facts {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, parsed) =
            x509_parser::parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
        let validity = parsed.validity();
        Ok(Self {
            subject: parsed.subject().to_string(),
            names: names(&parsed)?,
            not_before: from_unix(validity.not_before.timestamp()),
            not_after: from_unix(validity.not_after.timestamp()),
            authority: parsed.is_ca(),
            plain_authority: is_plain_authority(&parsed),
            for_servers: for_servers(&parsed)?,
        })
    }
}

/// Its own issuer, for certificates of the end only, for signing alone, with a
/// key on P-256.
fn is_plain_authority(certificate: &X509Certificate<'_>) -> bool {
    const ECDSA: &str = "1.2.840.10045.2.1";
    const P256: &str = "1.2.840.10045.3.1.7";
    let constraints = certificate.basic_constraints().ok().flatten();
    let usage = certificate.key_usage().ok().flatten();
    let algorithm = &certificate.public_key().algorithm;
    let curve = algorithm
        .parameters
        .as_ref()
        .and_then(|it| it.as_oid().ok());
    certificate.subject() == certificate.issuer()
        && constraints.is_some_and(|it| it.value.ca && it.value.path_len_constraint == Some(0))
        && usage.is_some_and(|it| {
            let usage = it.value;
            usage.key_cert_sign() && usage.crl_sign() && usage.flags.count_ones() == 2
        })
        && algorithm.algorithm.to_id_string() == ECDSA
        && curve.is_some_and(|curve| curve.to_id_string() == P256)
}

fn names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, String> {
    let extension = certificate
        .subject_alternative_name()
        .map_err(|error| format!("subjectAltName: {error}"))?;
    let all = extension.iter().flat_map(|it| &it.value.general_names);
    Ok(all
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect())
}

/// No list of usages means every usage.
fn for_servers(certificate: &X509Certificate<'_>) -> Result<bool, String> {
    let extension = certificate
        .extended_key_usage()
        .map_err(|error| format!("extendedKeyUsage: {error}"))?;
    Ok(extension.is_none_or(|usage| usage.value.any || usage.value.server_auth))
}

fn from_unix(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    moment.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A moment for people.
pub(super) fn moment(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map_or_else(
        |_| "a moment beyond the calendar".to_owned(),
        |at| format!("{at:.0}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::authority::{Authority, Issued, Validity};

    fn origin() -> Origin {
        Origin {
            certificate: "/tls/tls.crt".to_owned(),
            key: "/tls/tls.key".to_owned(),
        }
    }

    fn validity(now: SystemTime) -> Validity {
        Validity {
            not_before: now - Duration::from_secs(60),
            not_after: now + Duration::from_secs(60),
        }
    }

    fn now() -> SystemTime {
        from_unix(1_800_000_000)
    }

    fn issued() -> Issued {
        let authority = Authority::new("test", validity(now())).unwrap();
        authority
            .serving(&["a.b.svc", "a.b"], &[], validity(now()))
            .unwrap()
    }

    fn read(chain: &str, key: &str) -> Result<Pair, PairError> {
        Pair::read(chain.as_bytes(), key.as_bytes(), &origin())
    }

    #[test]
    fn a_good_pair_knows_its_names_and_its_time() {
        let issued = issued();
        let pair = read(&issued.certificate_pem, &issued.key_pem).unwrap();
        assert_eq!(pair.names(), ["a.b.svc", "a.b"]);
        assert_eq!(pair.not_after(), now() + Duration::from_secs(60));
        assert_eq!(pair.chain(), std::slice::from_ref(&issued.certificate));
        assert!(pair.check(now()).is_ok());
        assert!(!format!("{pair:?}").contains("PRIVATE"));
    }

    #[test]
    fn the_key_of_another_certificate_is_refused_with_both_places() {
        let error = read(&issued().certificate_pem, &issued().key_pem).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/tls/tls.key: this is not the key of the certificate in /tls/tls.crt: replace both by \
             one pair"
        );
    }

    #[test]
    fn a_certificate_out_of_its_time_is_refused_with_the_moment() {
        let issued = issued();
        let pair = read(&issued.certificate_pem, &issued.key_pem).unwrap();
        let late = pair.check(now() + Duration::from_secs(61)).unwrap_err();
        let text = "/tls/tls.crt: the certificate expired at 2027-01-15T08:01:00Z: replace it by a new one";
        assert_eq!(late.to_string(), text);
        let early = pair.check(now() - Duration::from_secs(61)).unwrap_err();
        assert!(matches!(early, PairError::NotYet { .. }), "{early}");
    }

    #[test]
    fn garbage_is_refused_with_its_place() {
        let issued = issued();
        let half = &issued.certificate_pem[..100];
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for chain in ["", "garbage", half, broken, &issued.key_pem] {
            let error = read(chain, &issued.key_pem).unwrap_err();
            assert!(matches!(error, PairError::Certificate { .. }), "{error}");
            assert!(error.to_string().starts_with("/tls/tls.crt: "), "{error}");
        }
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for key in ["", "garbage", broken, &issued.certificate_pem] {
            let error = read(&issued.certificate_pem, key).unwrap_err();
            assert!(matches!(error, PairError::Key { .. }), "{error}");
            assert!(error.to_string().starts_with("/tls/tls.key: "), "{error}");
        }
    }

    #[test]
    fn a_certificate_without_a_name_or_for_clients_is_refused() {
        let authority = Authority::new("test", validity(now())).unwrap();
        let nameless = authority.serving(&[], &[], validity(now())).unwrap();
        let error = read(&nameless.certificate_pem, &nameless.key_pem).unwrap_err();
        assert!(matches!(error, PairError::NoName { .. }), "{error}");
        let mut params = rcgen::CertificateParams::new(["a.b.svc".to_owned()]).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let client = params.self_signed(&key).unwrap();
        let error = read(&client.pem(), &key.serialize_pem()).unwrap_err();
        assert!(matches!(error, PairError::NotServer { .. }), "{error}");
    }
}
