//! X.509 certificates and their PEM texts: the only module that parses them.
//!
//! The module that presents certificates (`certificates`) and the one that verifies client
//! certificates (`security`) both use it, so that both read the same content.

use std::time::SystemTime;

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer};

/// The validity of a certificate, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first instant.
    pub not_before: SystemTime,
    /// The last instant.
    pub not_after: SystemTime,
}

impl Validity {
    /// Whether a time is within it.
    pub(crate) fn holds(&self, now: SystemTime) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Whether two thirds of it are over, so that the certificate must be renewed.
    pub fn is_old(&self, now: SystemTime) -> bool {
        let life = self.not_after.duration_since(self.not_before);
        now >= self.not_before + life.unwrap_or_default() * 2 / 3
    }
}

/// All certificates of a PEM text, without blocks of other kinds.
///
/// # Errors
/// When the text is broken.
pub fn from_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(text).collect()
}

/// A certificate as PEM text (RFC 7468).
pub(crate) fn to_pem(certificate: &CertificateDer<'_>) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    let block = pem::Pem::new("CERTIFICATE", certificate.as_ref());
    pem::encode_config(&block, lines)
}

/// A time for webpki. A time before 1970 counts as 1970.
pub(crate) fn unix_time(at: SystemTime) -> UnixTime {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    UnixTime::since_unix_epoch(since.unwrap_or_default())
}

pub(crate) fn moment(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map_or_else(
        |_| "a moment beyond the calendar".to_owned(),
        |at| format!("{at:.0}"),
    )
}

/// A parsed certificate. Its signature is not verified here.
#[derive(Debug)]
pub struct Certificate<'der>(X509Certificate<'der>);

impl<'der> Certificate<'der> {
    /// Parses a certificate.
    ///
    /// # Errors
    /// When it is no certificate.
    pub fn read(der: &'der CertificateDer<'_>) -> Result<Self, String> {
        match X509Certificate::from_der(der) {
            Ok((_, certificate)) => Ok(Self(certificate)),
            Err(error) => Err(format!("not an X.509 certificate: {error}")),
        }
    }

    /// Its validity.
    pub fn validity(&self) -> Validity {
        let validity = self.0.validity();
        Validity {
            not_before: validity.not_before.to_datetime().into(),
            not_after: validity.not_after.to_datetime().into(),
        }
    }

    pub(crate) fn public_key(&self) -> &[u8] {
        self.0.public_key().raw
    }

    /// The subject's common name; the last of several, as in Go. `None`: none, or empty.
    pub(crate) fn common_name(&self) -> Result<Option<String>, String> {
        let names = texts(self.0.subject().iter_common_name())?;
        Ok(names.into_iter().next_back().filter(|it| !it.is_empty()))
    }

    pub(crate) fn organizations(&self) -> Result<Vec<String>, String> {
        texts(self.0.subject().iter_organization())
    }

    pub(crate) fn is_authority(&self) -> bool {
        self.0.is_ca()
    }
}

fn texts<'a>(
    attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>,
) -> Result<Vec<String>, String> {
    let texts = attributes.map(|attribute| attribute.as_str().map(str::to_owned));
    texts
        .collect::<Result<_, _>>()
        .map_err(|_| "a name in the subject is not UTF-8 text".to_owned())
}
