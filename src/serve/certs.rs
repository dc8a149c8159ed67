//! Making certificates: an authority, serving and client certificates.
//!
//! Reads no clock: how long a certificate is valid is the caller's word.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
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

/// A certificate authority with its key.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
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
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    /// The authority's certificate.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// The authority's certificate as PEM: what goes into a `caBundle`.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.issuer.pem()
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
        let common_name = names.first().copied().unwrap_or("gpu-metrics-apiserver");
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
