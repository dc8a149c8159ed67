//! Issues certificates.
//!
//! Keys are ECDSA P-256, which every client of TLS 1.2 and 1.3 supports. The module reads
//! no clock: the caller sets the validity.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

pub use crate::x509::Validity;
use crate::x509::{self, Certificate};
pub use rcgen::ExtendedKeyUsagePurpose;

/// A certificate with its key.
pub type Issued = CertifiedKey<KeyPair>;

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
    /// Its certificate.
    pub certificate: CertificateDer<'static>,
    /// The validity of its certificate.
    pub validity: Validity,
}

impl CertificateAuthority {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// When the system provides no randomness.
    pub fn new(common_name: &str, validity: Validity) -> Result<Self, String> {
        let mut params = subject(common_name, validity);
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

    /// The authority's certificate as PEM, for a `caBundle`.
    pub fn certificate_pem(&self) -> String {
        x509::to_pem(&self.certificate)
    }

    /// Issues a serving certificate for these DNS names and addresses.
    ///
    /// # Errors
    /// When a name is no DNS name.
    pub fn serving(&self, names: &[&str], validity: Validity) -> Result<Issued, String> {
        let mut params = subject("gpu-metrics-apiserver", validity);
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        params.subject_alt_names = CertificateParams::new(names)
            .map_err(refused)?
            .subject_alt_names;
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
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
        let signing_key = KeyPair::generate().map_err(refused)?;
        let cert = params.signed_by(&signing_key, &self.issuer);
        let cert = cert.map_err(refused)?;
        Ok(CertifiedKey { cert, signing_key })
    }
}

/// The parameters of a certificate with this subject.
pub fn subject(common_name: &str, validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = validity.not_before.into();
    params.not_after = validity.not_after.into();
    let subject = &mut params.distinguished_name;
    subject.push(DnType::CommonName, common_name);
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
        assert!(authority.serving(&["né"], validity()).is_err());
        let issued = authority.serving(&["localhost"], validity()).unwrap();
        let shown = format!("{authority:?}{:?}", issued.signing_key);
        assert!(shown.contains("elided") && !shown.contains("PRIVATE"));
    }

    #[test]
    fn a_serving_certificate_is_for_servers_only() {
        let issued = authority().serving(&["a.b.svc", "127.0.0.1"], validity());
        let issued = issued.unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(issued.cert.der()).unwrap();
        let usage = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && !usage.client_auth && !usage.any);
        let names = parsed.subject_alternative_name().unwrap().unwrap();
        let names = names.value.general_names.iter();
        let names: Vec<String> = names.map(ToString::to_string).collect();
        assert_eq!(names, ["DNSName(a.b.svc)", "IPAddress(7f:00:00:01)"]);
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
        let issued = authority().serving(&["localhost"], validity());
        let issued = issued.unwrap();
        let key = issued.signing_key.serialize_pem();
        let read = CertificateAuthority::from_pem(issued.cert.pem().as_bytes(), &key);
        assert!(read.unwrap_err().contains("not that of an authority"));
    }
}
