//! Issues certificates: an authority, serving and client certificates.
//!
//! Keys are ECDSA P-256, which every client of TLS 1.2 and 1.3 supports. The module reads
//! no clock: the caller sets the validity.

use std::fmt;
use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::pair::Pair;
pub use crate::x509::Validity;
use crate::x509::{self, Certificate};

fn refused(error: impl fmt::Display) -> String {
    format!("cannot make the certificate: {error}")
}

fn unreadable(error: impl fmt::Display) -> String {
    format!("cannot read the authority: {error}")
}

/// A certificate authority with its key.
#[derive(Debug)]
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    validity: Validity,
}

/// A certificate with its key.
pub struct Issued {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The certificate as PEM.
    pub certificate_pem: String,
    /// The private key as PEM (PKCS #8).
    pub key_pem: String,
    key: PrivatePkcs8KeyDer<'static>,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

impl Issued {
    /// The private key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key().into()
    }

    /// Certificate and key, to be served.
    ///
    /// # Errors
    /// When the library refuses them.
    pub fn pair(&self) -> Result<Pair, String> {
        let chain = vec![self.certificate.clone()];
        Pair::new(chain, self.key()).map_err(refused)
    }
}

impl CertificateAuthority {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// When the system provides no randomness.
    pub fn new(common_name: &str, validity: Validity) -> Result<Self, String> {
        let mut params = CertificateParams::default();
        name(&mut params, common_name, validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(refused)?;
        let certificate = params.self_signed(&key).map_err(refused)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            validity,
        })
    }

    /// Reads an existing authority.
    ///
    /// # Errors
    /// When either text cannot be read, or the key does not belong to the certificate.
    pub fn from_pem(certificate: &[u8], key: &str) -> Result<Self, String> {
        let certificate = CertificateDer::from_pem_slice(certificate).map_err(unreadable)?;
        let key = KeyPair::from_pem(key).map_err(unreadable)?;
        let read = Certificate::read(&certificate).map_err(unreadable)?;
        if !read.is_authority() {
            return Err("the certificate is not that of an authority".to_owned());
        }
        if read.public_key() != key.subject_public_key_info() {
            return Err(
                "the authority's private key does not belong to its certificate".to_owned(),
            );
        }
        Ok(Self {
            validity: read.validity(),
            issuer: Issuer::from_ca_cert_der(&certificate, key).map_err(unreadable)?,
            certificate,
        })
    }

    /// The private key as PEM (PKCS #8).
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    pub(crate) const fn validity(&self) -> Validity {
        self.validity
    }

    /// The authority's certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// The authority's certificate as PEM, for a `caBundle`.
    pub fn certificate_pem(&self) -> String {
        x509::to_pem(&self.certificate)
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
        let names = names.iter().map(ToString::to_string);
        let names: Vec<String> = names
            .chain(addresses.iter().map(IpAddr::to_string))
            .collect();
        let mut params = CertificateParams::new(names).map_err(refused)?;
        name(&mut params, "gpu-metrics-apiserver", validity);
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
        let mut params = CertificateParams::default();
        name(&mut params, common_name, validity);
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
            key: key.serialize_der().into(),
        })
    }
}

fn name(params: &mut CertificateParams, common_name: &str, validity: Validity) {
    let subject = &mut params.distinguished_name;
    subject.push(DnType::CommonName, common_name);
    params.not_before = validity.not_before.into();
    params.not_after = validity.not_after.into();
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
    fn a_certificate_that_may_not_sign_is_no_authority() {
        let issued = authority().serving(&["localhost"], &[], validity());
        let issued = issued.unwrap();
        let pem = issued.certificate_pem.as_bytes();
        let read = CertificateAuthority::from_pem(pem, &issued.key_pem);
        assert!(read.unwrap_err().contains("not that of an authority"));
    }
}
