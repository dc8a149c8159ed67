//! The content of the shared Secret, parsed and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::certificates::authority::{Anchor, CertificateAuthority};
use crate::certificates::pair::Pair;
use crate::x509;

/// All trusted authorities, the newest first.
pub(crate) const CA_CERTIFICATE: &str = "ca.crt";
/// The key of the newest authority.
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
    /// The newest authority. It signs when it is in the bundles.
    pub current: Arc<CertificateAuthority>,
    /// Former authorities, trusted until they expire.
    pub retired: Vec<Anchor>,
}

impl Authorities {
    /// The authorities in these values of the Secret. Their validity is not checked.
    pub(super) fn read(data: &Data) -> Result<Self, String> {
        let certificates = value(data, CA_CERTIFICATE);
        let mut retired =
            anchors(certificates).map_err(|why| format!("{CA_CERTIFICATE}: {why}"))?;
        let key = str::from_utf8(value(data, CA_KEY)).unwrap_or_default();
        let current = CertificateAuthority::from_pem(certificates, key)
            .map_err(|error| format!("{CA_CERTIFICATE} and {CA_KEY}: {error}"))?;
        retired.retain(|anchor| anchor != current.anchor());
        Ok(Self {
            current: Arc::new(current),
            retired,
        })
    }

    /// The serving certificate in these values. One of the authorities must have signed it;
    /// its validity is not checked.
    pub(super) fn signed_pair(&self, data: &Data) -> Result<Pair, String> {
        let pair = pair(value(data, CERTIFICATE), value(data, KEY))?;
        let anchors = std::iter::once(self.current.anchor()).chain(&self.retired);
        let name = pair.names().first().map_or("", String::as_str);
        pair.verify(anchors, name, pair.validity().not_after)
            .map_err(|error| {
                format!("{CERTIFICATE}: not signed by an authority of {CA_CERTIFICATE}: {error}")
            })?;
        Ok(pair)
    }

    /// Whether the newest authority signed a serving certificate. A former one did while the
    /// newest one is being added to the bundles.
    pub(super) fn current_signed(&self, pair: &Pair) -> bool {
        let name = pair.names().first().map_or("", String::as_str);
        let at = pair.validity().not_after;
        pair.verify([self.current.anchor()], name, at).is_ok()
    }

    /// All authorities that are trusted at a time, the newest first.
    pub(crate) fn trusted(&self, now: SystemTime) -> impl Iterator<Item = &Anchor> {
        let all = std::iter::once(self.current.anchor()).chain(&self.retired);
        all.filter(move |anchor| anchor.validity.not_after >= now)
    }
}

/// The Secret's content, complete and consistent.
#[derive(Clone, Debug)]
pub struct Content {
    /// The newest authority, and the retired ones that are still trusted.
    pub authorities: Authorities,
    /// The serving certificate.
    pub pair: Pair,
}

impl Content {
    /// The Secret's values.
    pub fn data(&self, now: SystemTime) -> Data {
        let bundle = bundle(self.authorities.trusted(now)).into_bytes();
        let key = self.authorities.current.key_pem().into_bytes();
        let (chain, key_of_pair) = self.pair.texts();
        let values = [bundle, key, chain.to_vec(), key_of_pair.to_vec()];
        ALL.map(str::to_owned).into_iter().zip(values).collect()
    }
}

/// A value of the Secret; empty: it has none.
pub(super) fn value<'a>(data: &'a Data, key: &str) -> &'a [u8] {
    data.get(key).map_or(&[], Vec::as_slice)
}

pub(super) fn pair(chain: &[u8], key: &[u8]) -> Result<Pair, String> {
    Pair::read((chain, CERTIFICATE), (key, KEY))
}
