//! The user that a certificate names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;

use super::identity::Identity;
use crate::x509::Certificate;

/// The user's UID in a subject: 1.3.6.1.4.1.57683.2 (apimachinery
/// `pkg/apis/asn1/oid.go`).
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// The extra key that identifies the credential (apiserver
/// `pkg/authentication/user/user.go`).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// CN is the user, each O a group (apiserver
/// `pkg/authentication/request/x509/x509.go`).
pub(super) fn identity(der: &CertificateDer<'_>) -> Result<Identity, String> {
    let certificate = Certificate::read(der)?;
    let user = certificate.common_name()?;
    let uid = match certificate.attributes(UID)?.as_slice() {
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
        user: user.ok_or("the subject has no common name")?,
        uid,
        groups: certificate.organizations()?,
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint])]),
    })
}
