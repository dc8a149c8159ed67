//! The content of the shared Secret, parsed and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::certificates::authority::{Anchor, CertError, CertificateAuthority, Validity};
use crate::certificates::pair::Pair;
use crate::x509;

/// All trusted authorities, the signing one first.
pub(crate) const CA_CERTIFICATE: &str = "ca.crt";
/// The key of the signing authority.
pub(crate) const CA_KEY: &str = "ca.key";
/// The serving certificate.
pub(crate) const CERTIFICATE: &str = "tls.crt";
/// Its key.
pub const KEY: &str = "tls.key";
/// The next signing authority, while authorities change.
pub(crate) const NEXT_CERTIFICATE: &str = "next.crt";
/// Its key.
pub(crate) const NEXT_KEY: &str = "next.key";

/// Every key that the server writes; other keys are kept.
pub const ALL: [&str; 6] = [
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    NEXT_CERTIFICATE,
    NEXT_KEY,
];

/// The values of a Secret.
pub type Data = BTreeMap<String, Vec<u8>>;

/// The authorities in a PEM text.
pub(super) fn anchors(pem: &[u8]) -> Result<Vec<Anchor>, String> {
    let certificates = x509::from_pem(pem).map_err(|error| error.to_string())?;
    certificates.into_iter().map(Anchor::read).collect()
}

/// Authorities as PEM.
pub(super) fn bundle<'a>(anchors: impl IntoIterator<Item = &'a Anchor>) -> String {
    let certificates = anchors.into_iter().map(|anchor| &anchor.certificate);
    certificates.map(x509::to_pem).collect()
}

/// The authorities in the Secret.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// The signing authority.
    pub current: Arc<CertificateAuthority>,
    /// The next signing authority, once every APIService trusts it.
    pub next: Option<Arc<CertificateAuthority>>,
    /// Former signing authorities, trusted until they expire.
    pub retired: Vec<Anchor>,
}

impl Authorities {
    /// All trusted at a time, the signing one first.
    pub(crate) fn trusted(&self, now: SystemTime) -> impl Iterator<Item = &Anchor> {
        let signers = std::iter::once(&self.current).chain(&self.next);
        let retired = self.retired.iter();
        signers
            .map(|signer| signer.anchor())
            .chain(retired.filter(move |anchor| anchor.validity.not_after >= now))
    }
}

/// The serving certificate in the Secret.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The pair, read and checked.
    pub pair: Pair,
    texts: PairTexts,
}

/// Chain and key as PEM. Never shown.
#[derive(Clone)]
struct PairTexts(Vec<u8>, Vec<u8>);

impl std::fmt::Debug for PairTexts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Leaf {
    fn read(chain: Vec<u8>, key: Vec<u8>) -> Result<Self, String> {
        let pair = Pair::read((&chain, CERTIFICATE), (&key, KEY))?;
        Ok(Self {
            pair,
            texts: PairTexts(chain, key),
        })
    }

    /// Issues a new one.
    pub(super) fn make(
        by: &CertificateAuthority,
        names: &[String],
        validity: Validity,
    ) -> Result<Self, CertError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let issued = by.serving(&names, &[], validity)?;
        let (chain, key) = (issued.certificate_pem, issued.key_pem);
        Self::read(chain.into_bytes(), key.into_bytes()).map_err(CertError::Unreadable)
    }
}

/// The Secret's content, complete and consistent.
#[derive(Clone, Debug)]
pub struct Content {
    /// The authority that signs, and those that are trusted.
    pub authorities: Authorities,
    /// The serving certificate.
    pub leaf: Leaf,
}

impl Content {
    /// The Secret's values.
    #[must_use]
    pub fn data(&self, now: SystemTime) -> Data {
        let Authorities { current, next, .. } = &self.authorities;
        let bundle = bundle(self.authorities.trusted(now));
        let PairTexts(chain, key) = &self.leaf.texts;
        let mut data = Data::from([
            (CA_CERTIFICATE.to_owned(), bundle.into_bytes()),
            (CA_KEY.to_owned(), current.key_pem().into_bytes()),
            (CERTIFICATE.to_owned(), chain.clone()),
            (KEY.to_owned(), key.clone()),
        ]);
        if let Some(next) = next {
            let certificate = next.certificate_pem().into_bytes();
            data.insert(NEXT_CERTIFICATE.to_owned(), certificate);
            data.insert(NEXT_KEY.to_owned(), next.key_pem().into_bytes());
        }
        data
    }
}

/// The parsed state of the Secret.
#[derive(Clone, Debug)]
pub enum FoundContent {
    /// Empty, as the manifests create it.
    Empty,
    /// No usable authority; the reason.
    Broken(String),
    /// Authorities without a usable serving certificate; the reason.
    Leafless(Authorities, String),
    /// Complete.
    Whole(Content),
}

/// Parses the Secret's values. Their validity in time is not checked.
#[must_use]
pub(crate) fn read(data: &Data) -> FoundContent {
    if ALL.iter().all(|key| value(data, key).is_empty()) {
        return FoundContent::Empty;
    }
    let authorities = match authorities(data) {
        Ok(authorities) => authorities,
        Err(why) => return FoundContent::Broken(why),
    };
    match leaf(data, &authorities) {
        Ok(leaf) => FoundContent::Whole(Content { authorities, leaf }),
        Err(why) => FoundContent::Leafless(authorities, why),
    }
}

fn value<'a>(data: &'a Data, key: &str) -> &'a [u8] {
    data.get(key).map_or(&[], Vec::as_slice)
}

fn authorities(data: &Data) -> Result<Authorities, String> {
    let signer = |certificate, key| {
        let key = str::from_utf8(value(data, key)).unwrap_or_default();
        CertificateAuthority::from_pem(value(data, certificate), key).map(Arc::new)
    };
    let mut retired =
        anchors(value(data, CA_CERTIFICATE)).map_err(|why| format!("{CA_CERTIFICATE}: {why}"))?;
    let current = signer(CA_CERTIFICATE, CA_KEY)
        .map_err(|error| format!("{CA_CERTIFICATE} and {CA_KEY}: {error}"))?;
    // A missing or broken one is made again when it is due.
    let next = signer(NEXT_CERTIFICATE, NEXT_KEY).ok();
    retired.retain(|anchor| {
        let mut signers = std::iter::once(&current).chain(&next);
        signers.all(|signer| signer.anchor() != anchor)
    });
    Ok(Authorities {
        current,
        next,
        retired,
    })
}

/// The serving certificate, signed by the signing authority; its validity in time is not
/// checked.
fn leaf(data: &Data, authorities: &Authorities) -> Result<Leaf, String> {
    let leaf = Leaf::read(value(data, CERTIFICATE).to_vec(), value(data, KEY).to_vec())?;
    let name = leaf.pair.names().first().map_or("", String::as_str);
    let end = leaf.pair.validity().not_after;
    let verified = leaf.pair.verify([authorities.current.anchor()], name, end);
    verified.map_err(|error| {
        format!("{CERTIFICATE}: not signed by the first authority of {CA_CERTIFICATE}: {error}")
    })?;
    Ok(leaf)
}
