//! What stands in a certificate: names, groups, validity.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;
use x509_parser::oid_registry::Oid;
use x509_parser::prelude::{ASN1Time, AttributeTypeAndValue, FromDer, X509Certificate};

use super::identity::Identity;

/// The user's UID in a subject: 1.3.6.1.4.1.57683.2 (apimachinery
/// `pkg/apis/asn1/oid.go`).
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// The extra key that tells one credential from another (apiserver
/// `pkg/authentication/user/user.go`).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    from: SystemTime,
    until: SystemTime,
}

impl Validity {
    pub(super) fn holds(self, now: SystemTime) -> bool {
        self.from <= now && now <= self.until
    }

    /// The next moment at which [`Self::holds`] may give another answer.
    pub(super) fn next(self, now: SystemTime) -> Option<SystemTime> {
        [self.from, self.until].into_iter().find(|at| *at > now)
    }
}

fn parse<'c>(der: &'c CertificateDer<'_>) -> Result<X509Certificate<'c>, String> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(error) => Err(format!("not an X.509 certificate: {error}")),
    }
}

fn moment(time: ASN1Time) -> SystemTime {
    let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
    UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(UNIX_EPOCH)
}

pub(super) fn validity(der: &CertificateDer<'_>) -> Result<Validity, String> {
    let certificate = parse(der)?;
    Ok(Validity {
        from: moment(certificate.validity().not_before),
        until: moment(certificate.validity().not_after),
    })
}

pub(super) fn public_key(der: &CertificateDer<'_>) -> Result<Vec<u8>, String> {
    Ok(parse(der)?.public_key().raw.to_vec())
}

fn texts<'a>(
    attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>,
) -> Result<Vec<String>, String> {
    let texts = attributes.map(|attribute| attribute.as_str().map(str::to_owned));
    texts
        .collect::<Result<_, _>>()
        .map_err(|_| "a name in the subject is not UTF-8 text".to_owned())
}

/// The common name; of several the last, as in Go.
pub(super) fn common_name(der: &CertificateDer<'_>) -> Result<Option<String>, String> {
    let certificate = parse(der)?;
    let names = texts(certificate.subject().iter_common_name())?;
    Ok(names
        .into_iter()
        .next_back()
        .filter(|name| !name.is_empty()))
}

/// The user that a certificate names: CN is the user, each O a group (apiserver
/// `pkg/authentication/request/x509/x509.go`).
pub(super) fn identity(der: &CertificateDer<'_>) -> Result<Identity, String> {
    let user = common_name(der)?.ok_or("the subject has no common name")?;
    let certificate = parse(der)?;
    let subject = certificate.subject();
    let oid = Oid::from(UID).map_err(|_| "the UID's identifier is broken")?;
    let uids = texts(subject.iter_by_oid(&oid))?;
    let uid = match uids.as_slice() {
        [] => None,
        [uid] if !uid.is_empty() => Some(uid.clone()),
        _ => return Err("the subject must have one UID that is not empty, or none".to_owned()),
    };
    let mut fingerprint = "X509SHA256=".to_owned();
    for byte in digest::digest(&digest::SHA256, der).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(fingerprint, "{byte:02x}");
    }
    Ok(Identity {
        user,
        uid,
        groups: texts(subject.iter_organization())?,
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint])]),
    })
}
