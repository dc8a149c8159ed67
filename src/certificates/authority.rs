//! Making certificates: an authority, serving and client certificates.
//!
//! Keys are ECDSA P-256, which every client of TLS 1.2 and 1.3 knows. Reads no
//! clock: how long a certificate is valid is the caller's word.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// A name that cannot stand in a certificate.
    #[error("{name:?} is no DNS name")]
    Name {
        /// The name.
        name: String,
    },
    /// The texts are no authority: not PEM, not a certificate, no private key.
    #[error("cannot read the authority: {reason}")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
    /// A certificate and a key of two authorities.
    #[error("the authority's private key does not belong to its certificate")]
    OtherKey,
    /// The library refused.
    #[error("cannot make the certificate")]
    Library(#[from] rcgen::Error),
}

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// The first moment.
    pub not_before: SystemTime,
    /// The last moment.
    pub not_after: SystemTime,
}

/// The longest common name that X.509 allows (RFC 5280, `ub-common-name`).
const MAX_COMMON_NAME: usize = 64;

/// A certificate authority with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// A certificate with its key.
pub struct Issued {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The certificate as PEM.
    pub certificate_pem: String,
    /// The private key as PEM (PKCS #8).
    pub key_pem: String,
    key: Vec<u8>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

impl Issued {
    /// The private key.
    #[must_use]
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

impl Authority {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn new(common_name: &str, validity: Validity) -> Result<Self, CertError> {
        let mut params = params(common_name, None, validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// An authority that was made before.
    ///
    /// # Errors
    /// When either text cannot be read or they do not belong together.
    pub fn from_pem(certificate: &[u8], key: &str) -> Result<Self, CertError> {
        let unreadable = |reason: String| CertError::Unreadable { reason };
        let certificate = CertificateDer::from_pem_slice(certificate)
            .map_err(|error| unreadable(format!("certificate: {error}")))?;
        // Read as PKCS #8, the one form we write, without rcgen's guesses.
        let pem = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| unreadable(format!("private key: {error}")))?;
        let key = KeyPair::try_from(pem.secret_pkcs8_der())
            .map_err(|error| unreadable(format!("private key: {error}")))?;
        let spki = public_key(&certificate).map_err(unreadable)?;
        if spki != key.subject_public_key_info() {
            return Err(CertError::OtherKey);
        }
        Ok(Self {
            pem: pem_text(&certificate),
            issuer: Issuer::from_ca_cert_der(&certificate, key)?,
            certificate,
        })
    }

    /// The private key as PEM (PKCS #8).
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The authority's certificate.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// The authority's certificate as PEM: what goes into a `caBundle`.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.pem.clone()
    }

    /// A certificate for a server known by these names and addresses.
    ///
    /// # Errors
    /// When a name is no DNS name.
    pub fn serving(
        &self,
        names: &[&str],
        addresses: &[IpAddr],
        validity: Validity,
    ) -> Result<Issued, CertError> {
        let short = names.iter().find(|name| name.len() <= MAX_COMMON_NAME);
        let common_name = short.copied().unwrap_or("gpu-metrics-apiserver");
        let mut params = params(common_name, None, validity);
        for name in names {
            let invalid = |_| CertError::Name {
                name: (*name).to_owned(),
            };
            let name = (*name).try_into().map_err(invalid)?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        let addresses = addresses.iter().copied().map(SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client: Kubernetes reads the common name as the
    /// user and the organization as a group.
    ///
    /// # Errors
    /// When the library refuses the names.
    pub fn client(
        &self,
        common_name: &str,
        organization: Option<&str>,
        validity: Validity,
    ) -> Result<Issued, CertError> {
        let params = params(common_name, organization, validity);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Issued, CertError> {
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key: key.serialize_der(),
        })
    }
}

/// A certificate's public key with its algorithm, as DER.
fn public_key(certificate: &CertificateDer<'_>) -> Result<Vec<u8>, String> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
    Ok(parsed.public_key().raw.to_vec())
}

/// A certificate as PEM (RFC 7468).
pub(super) fn pem_text(certificate: &CertificateDer<'_>) -> String {
    const LINE: usize = 64;
    let encoded = base64(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in encoded.chunks(LINE) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

/// RFC 4648 §4, padded.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            text.push(if digit <= group.len() {
                DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]
            } else {
                b'='
            });
        }
    }
    text
}

fn params(common_name: &str, organization: Option<&str>, validity: Validity) -> CertificateParams {
    let since_epoch = |at: SystemTime| {
        at.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
    };
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.not_before = epoch + since_epoch(validity.not_before);
    params.not_after = epoch + since_epoch(validity.not_after);
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> Authority {
        let now = SystemTime::now();
        let validity = Validity {
            not_before: now,
            not_after: now + Duration::from_secs(60),
        };
        Authority::new("test", validity).unwrap()
    }

    #[test]
    fn an_authority_survives_pem() {
        let made = authority();
        let pem = pem_text(&made.certificate());
        assert_eq!(
            CertificateDer::from_pem_slice(pem.as_bytes()).unwrap(),
            made.certificate()
        );
        let read = Authority::from_pem(pem.as_bytes(), &made.key_pem()).unwrap();
        assert_eq!(read.certificate(), made.certificate());
        assert_eq!(read.key_pem(), made.key_pem());
    }

    #[test]
    fn an_authority_with_the_key_of_another_is_refused() {
        let (one, other) = (authority(), authority());
        let mixed = Authority::from_pem(one.certificate_pem().as_bytes(), &other.key_pem());
        assert!(matches!(mixed, Err(CertError::OtherKey)), "{mixed:?}");
        for (certificate, key) in [
            (String::new(), one.key_pem()),
            (one.key_pem(), one.key_pem()),
            (one.certificate_pem(), String::new()),
            (one.certificate_pem(), one.certificate_pem()),
        ] {
            let read = Authority::from_pem(certificate.as_bytes(), &key);
            assert!(
                matches!(read, Err(CertError::Unreadable { .. })),
                "{read:?}"
            );
        }
    }

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn a_name_too_long_for_a_common_name_is_an_alternative_name_all_the_same() {
        let now = SystemTime::now();
        let validity = Validity {
            not_before: now,
            not_after: now + Duration::from_secs(60),
        };
        let long = format!("{}.{}.svc", "s".repeat(63), "n".repeat(63));
        let issued = authority().serving(&[&long], &[], validity).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(&issued.certificate).unwrap();
        assert_eq!(parsed.subject().to_string(), "CN=gpu-metrics-apiserver");
        let names = parsed.subject_alternative_name().unwrap().unwrap();
        assert!(format!("{names:?}").contains(&long));
    }
}
