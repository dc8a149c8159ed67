//! Issues certificates: an authority, serving and client certificates.
//!
//! Keys are ECDSA P-256, which every client of TLS 1.2 and 1.3 supports. The module reads
//! no clock: the caller sets the validity.

use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub use crate::x509::Validity;
use crate::x509::{self, Certificate};

fn refused(error: impl fmt::Display) -> String {
    format!("cannot make the certificate: {error}")
}

fn unreadable(error: impl fmt::Display) -> String {
    format!("cannot read the authority: {error}")
}

/// The longest common name that X.509 allows (RFC 5280, `ub-common-name`).
const MAX_COMMON_NAME: usize = 64;

/// The certificate of an authority, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// When it is valid.
    pub validity: Validity,
    /// The common name.
    pub name: String,
}

impl Anchor {
    pub(crate) fn read(certificate: CertificateDer<'static>) -> Result<Self, String> {
        let read = Certificate::read(&certificate)?;
        if !read.is_authority() {
            return Err("the certificate is not that of an authority".to_owned());
        }
        Ok(Self {
            validity: read.validity(),
            name: read.common_name()?.unwrap_or_default(),
            certificate,
        })
    }
}

/// A certificate authority with its key.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    anchor: Anchor,
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

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.anchor.fmt(f)
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

impl Issued {
    /// The private key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

impl CertificateAuthority {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// When the system provides no randomness.
    pub fn new(common_name: &str, validity: Validity) -> Result<Self, String> {
        let mut params = params(common_name, validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(refused)?;
        let certificate = params.self_signed(&key).map_err(refused)?;
        Ok(Self {
            anchor: Anchor::read(certificate.der().clone())?,
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads an existing authority.
    ///
    /// # Errors
    /// When either text cannot be read, or the key does not belong to the certificate.
    pub fn from_pem(certificate: &[u8], key: &str) -> Result<Self, String> {
        let certificate = CertificateDer::from_pem_slice(certificate).map_err(unreadable)?;
        // Authorities are only written as PKCS #8, so rcgen need not guess the format.
        let pem = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).map_err(unreadable)?;
        let key = KeyPair::try_from(pem.secret_pkcs8_der()).map_err(unreadable)?;
        let read = Certificate::read(&certificate).map_err(unreadable)?;
        if read.public_key() != key.subject_public_key_info() {
            return Err(
                "the authority's private key does not belong to its certificate".to_owned(),
            );
        }
        Ok(Self {
            issuer: Issuer::from_ca_cert_der(&certificate, key).map_err(unreadable)?,
            anchor: Anchor::read(certificate).map_err(unreadable)?,
        })
    }

    /// The private key as PEM (PKCS #8).
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The authority's certificate, for clients that trust it.
    pub(crate) const fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// The authority's certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.anchor.certificate.clone()
    }

    /// The authority's certificate as PEM, for a `caBundle`.
    pub fn certificate_pem(&self) -> String {
        x509::to_pem(&self.anchor.certificate)
    }

    /// Issues a serving certificate for these names and addresses.
    ///
    /// # Errors
    /// When a name is no DNS name.
    pub fn serving(
        &self,
        names: &[&str],
        addresses: &[IpAddr],
        validity: Validity,
    ) -> Result<Issued, String> {
        let short = names.iter().find(|name| name.len() <= MAX_COMMON_NAME);
        let common_name = short.copied().unwrap_or("gpu-metrics-apiserver");
        let mut params = params(common_name, validity);
        for name in names {
            let dns = (*name).try_into();
            let dns = dns.map_err(|_| format!("{name:?} is no DNS name"))?;
            params.subject_alt_names.push(SanType::DnsName(dns));
        }
        let addresses = addresses.iter().copied().map(SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a client certificate. Kubernetes reads the common name as the user, and the
    /// organization as a group.
    ///
    /// # Errors
    /// When the library refuses the names.
    pub fn client(
        &self,
        common_name: &str,
        organization: Option<&str>,
        validity: Validity,
    ) -> Result<Issued, String> {
        let mut params = params(common_name, validity);
        if let Some(organization) = organization {
            let name = &mut params.distinguished_name;
            name.push(DnType::OrganizationName, organization);
        }
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Issues a certificate for this purpose.
    ///
    /// # Errors
    /// When the library refuses the parameters.
    pub fn sign(
        &self,
        mut params: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Issued, String> {
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(refused)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(refused)?;
        Ok(Issued {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key: key.serialize_der(),
        })
    }
}

fn params(common_name: &str, validity: Validity) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since_epoch = |at: SystemTime| {
        at.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = epoch + since_epoch(validity.not_before);
    params.not_after = epoch + since_epoch(validity.not_after);
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_server::validity;

    fn authority() -> CertificateAuthority {
        CertificateAuthority::new("test", validity()).unwrap()
    }

    #[test]
    fn names_are_dns_names_and_keys_are_not_shown() {
        let authority = authority();
        assert!(authority.serving(&["né"], &[], validity()).is_err());
        let issued = authority.serving(&["localhost"], &[], validity()).unwrap();
        assert!(!format!("{issued:?}{authority:?}").contains("PRIVATE"));
    }

    #[test]
    fn an_authority_with_the_key_of_another_is_refused() {
        let (one, other) = (authority(), authority());
        let mixed =
            CertificateAuthority::from_pem(one.certificate_pem().as_bytes(), &other.key_pem());
        assert!(mixed.unwrap_err().contains("does not belong"));
        for (certificate, key) in [
            (String::new(), one.key_pem()),
            (one.key_pem(), one.key_pem()),
            (one.certificate_pem(), String::new()),
            (one.certificate_pem(), one.certificate_pem()),
        ] {
            let read = CertificateAuthority::from_pem(certificate.as_bytes(), &key);
            assert!(read.unwrap_err().starts_with("cannot read"));
        }
    }

    #[test]
    fn a_name_too_long_for_a_common_name_is_still_an_alternative_name() {
        let long = format!("{}.{}.svc", "s".repeat(63), "n".repeat(63));
        let issued = authority().serving(&[&long], &[], validity()).unwrap();
        let read = Certificate::read(&issued.certificate).unwrap();
        assert_eq!(read.subject(), "CN=gpu-metrics-apiserver");
        assert_eq!(read.dns_names().unwrap(), [long]);
    }
}
