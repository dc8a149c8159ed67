//! The content of the shared Secret, parsed and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::certificates::authority::{Anchor, CertificateAuthority};
use crate::certificates::pair::Pair;
use crate::x509;

/// All trusted authorities, the signing one first.
pub(crate) const CA_CERTIFICATE: &str = "ca.crt";
/// The key of the signing authority.
pub(crate) const CA_KEY: &str = "ca.key";
pub(crate) const CERTIFICATE: &str = "tls.crt";
/// The key of the serving certificate.
pub const KEY: &str = "tls.key";

/// Every key that the server writes; other keys are kept.
pub const ALL: [&str; 4] = [CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY];

/// The values of a Secret.
pub type Data = BTreeMap<String, Vec<u8>>;

pub(super) fn anchors(pem: &[u8]) -> Result<Vec<Anchor>, String> {
    let certificates = x509::from_pem(pem).map_err(|error| error.to_string())?;
    certificates.into_iter().map(Anchor::read).collect()
}

pub(super) fn bundle<'a>(anchors: impl IntoIterator<Item = &'a Anchor>) -> String {
    let certificates = anchors.into_iter().map(|anchor| &anchor.certificate);
    certificates.map(x509::to_pem).collect()
}

/// The trusted authorities of the Secret.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// The signing authority.
    pub current: Arc<CertificateAuthority>,
    /// Former signing authorities, trusted until they expire.
    pub retired: Vec<Anchor>,
}

impl Authorities {
    /// All authorities that are trusted at a time, the signing one first.
    pub(crate) fn trusted(&self, now: SystemTime) -> impl Iterator<Item = &Anchor> {
        let retired = self.retired.iter();
        let retired = retired.filter(move |anchor| anchor.validity.not_after >= now);
        std::iter::once(self.current.anchor()).chain(retired)
    }
}

/// The Secret's content, complete and consistent.
#[derive(Clone, Debug)]
pub struct Content {
    /// The signing authority, and the retired ones that are still trusted.
    pub authorities: Authorities,
    /// The serving certificate.
    pub pair: Pair,
}

impl Content {
    /// The authority that signed the serving certificate. It is a retired one while the new
    /// authority is being added to the bundles.
    pub(super) fn signer(&self) -> &Anchor {
        let Authorities { current, retired } = &self.authorities;
        let mut known = retired.iter();
        let former = known.find(|anchor| is_signed_by(&self.pair, [*anchor]).is_ok());
        former.unwrap_or_else(|| current.anchor())
    }

    /// The Secret's values.
    pub fn data(&self, now: SystemTime) -> Data {
        let bundle = bundle(self.authorities.trusted(now));
        let (chain, key) = self.pair.texts();
        Data::from([
            (CA_CERTIFICATE.to_owned(), bundle.into_bytes()),
            (
                CA_KEY.to_owned(),
                self.authorities.current.key_pem().into_bytes(),
            ),
            (CERTIFICATE.to_owned(), chain.to_vec()),
            (KEY.to_owned(), key.to_vec()),
        ])
    }
}

/// The parsed state of the Secret.
#[derive(Clone, Debug)]
pub enum FoundContent {
    /// Empty, as the manifests create it.
    Empty,
    /// No usable authority; the reason.
    Broken(String),
    /// Authorities, but no usable serving certificate; the reason.
    Leafless(Authorities, String),
    /// Complete.
    Whole(Content),
}

/// Parses the Secret's values. Does not check that the certificates are valid now.
pub(crate) fn read(data: &Data) -> FoundContent {
    if ALL.iter().all(|key| value(data, key).is_empty()) {
        return FoundContent::Empty;
    }
    let authorities = match authorities(data) {
        Ok(authorities) => authorities,
        Err(why) => return FoundContent::Broken(why),
    };
    match signed_pair(data, &authorities) {
        Ok(pair) => FoundContent::Whole(Content { authorities, pair }),
        Err(why) => FoundContent::Leafless(authorities, why),
    }
}

fn value<'a>(data: &'a Data, key: &str) -> &'a [u8] {
    data.get(key).map_or(&[], Vec::as_slice)
}

fn authorities(data: &Data) -> Result<Authorities, String> {
    let certificates = value(data, CA_CERTIFICATE);
    let mut retired = anchors(certificates).map_err(|why| format!("{CA_CERTIFICATE}: {why}"))?;
    let key = str::from_utf8(value(data, CA_KEY)).unwrap_or_default();
    let current = CertificateAuthority::from_pem(certificates, key)
        .map_err(|error| format!("{CA_CERTIFICATE} and {CA_KEY}: {error}"))?;
    retired.retain(|anchor| anchor != current.anchor());
    Ok(Authorities {
        current: Arc::new(current),
        retired,
    })
}

/// The serving certificate. A trusted authority must have signed it; its validity is not checked.
fn signed_pair(data: &Data, authorities: &Authorities) -> Result<Pair, String> {
    let pair = pair(value(data, CERTIFICATE), value(data, KEY))?;
    let anchors = std::iter::once(authorities.current.anchor()).chain(&authorities.retired);
    is_signed_by(&pair, anchors).map_err(|error| {
        format!("{CERTIFICATE}: not signed by an authority of {CA_CERTIFICATE}: {error}")
    })?;
    Ok(pair)
}

/// Checks that one of these authorities signed the certificate, at the time of its expiry.
fn is_signed_by<'a>(
    pair: &Pair,
    anchors: impl IntoIterator<Item = &'a Anchor>,
) -> Result<(), String> {
    let name = pair.names().first().map_or("", String::as_str);
    pair.verify(anchors, name, pair.validity().not_after)
}

pub(super) fn pair(chain: &[u8], key: &[u8]) -> Result<Pair, String> {
    Pair::read((chain, CERTIFICATE), (key, KEY))
}
