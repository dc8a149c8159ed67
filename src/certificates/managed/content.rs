//! What the shared Secret holds, read and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::SupportedCipherSuite;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::decide::Lifetimes;
use super::departed::Departed;
use crate::certificates::authority::{Authority, CertError, Validity, pem_text};
use crate::certificates::pair::{Facts, Origin, Pair};

/// All authorities to trust, the one that signs first.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// The key of the one that signs.
pub const CA_KEY: &str = "ca.key";
/// The serving certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// Its key.
pub const KEY: &str = "tls.key";
/// While authorities change: the one that will sign.
pub const NEXT_CERTIFICATE: &str = "next.crt";
/// Its key.
pub const NEXT_KEY: &str = "next.key";

/// When authorities left this Secret that a bundle still held: lines of a
/// fingerprint (SHA-256 of the certificate) and a Unix time in seconds.
pub const DEPARTED: &str = "departed";

/// Every key of ours: what a writer replaces, others are left alone.
pub const ALL: [&str; 7] = [
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    DEPARTED,
];

/// Beginning of our authorities' common name; their first day follows.
pub(super) const AUTHORITY_NAME: &str = "gpu-metrics-apiserver authority";

/// More authorities than any change of them needs.
pub(super) const MOST_AUTHORITIES: usize = 8;

/// The values of a Secret.
pub type Data = BTreeMap<String, Vec<u8>>;

/// The certificate of an authority: what may be trusted.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its first moment.
    pub not_before: SystemTime,
    /// Its last moment.
    pub not_after: SystemTime,
    /// Named and formed as those that a server like us makes.
    formed: bool,
}

impl Anchor {
    fn of(certificate: CertificateDer<'static>) -> Result<Self, String> {
        let facts = Facts::of(&certificate)?;
        if !facts.authority {
            return Err("the certificate is not that of an authority".to_owned());
        }
        Ok(Self {
            certificate,
            not_before: facts.not_before,
            not_after: facts.not_after,
            formed: facts.plain_authority && is_our_name(&facts.subject),
        })
    }

    /// Made by a server like us, as far as that can be seen: of our form, and
    /// of no longer life than we give them. What is not is never trusted.
    pub(super) fn is_ours(&self, lifetimes: &Lifetimes) -> bool {
        let life = self.not_after.duration_since(self.not_before);
        self.formed && life.is_ok_and(|life| life <= lifetimes.authority + lifetimes.skew)
    }

    /// SHA-256 of the certificate, from the implementation that TLS uses.
    pub(super) fn fingerprint(&self) -> String {
        let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
            return String::new();
        };
        let digest = suite.common.hash_provider.hash(&self.certificate);
        let digits = digest.as_ref().iter();
        digits.map(|byte| format!("{byte:02x}")).collect()
    }
}

/// `CN=gpu-metrics-apiserver authority 2026-11-21` and nothing else.
fn is_our_name(subject: &str) -> bool {
    let day = subject
        .strip_prefix("CN=")
        .and_then(|name| name.strip_prefix(AUTHORITY_NAME))
        .and_then(|rest| rest.strip_prefix(' '));
    day.is_some_and(|day| day.parse::<jiff::civil::Date>().is_ok())
}

/// The authorities in a PEM text.
pub(super) fn anchors(pem: &[u8]) -> Result<Vec<Anchor>, String> {
    CertificateDer::pem_slice_iter(pem)
        .map(|certificate| Anchor::of(certificate.map_err(|error| error.to_string())?))
        .collect()
}

/// Authorities as PEM.
pub(super) fn bundle<'a>(anchors: impl IntoIterator<Item = &'a Anchor>) -> String {
    anchors
        .into_iter()
        .map(|anchor| pem_text(&anchor.certificate))
        .collect()
}

/// An authority that can sign.
#[derive(Clone, Debug)]
pub struct Signer {
    authority: Arc<Authority>,
    /// What is trusted.
    pub anchor: Anchor,
}

impl Signer {
    pub(super) fn new(authority: Authority) -> Result<Self, CertError> {
        let anchor = Anchor::of(authority.certificate())
            .map_err(|reason| CertError::Unreadable { reason })?;
        Ok(Self {
            authority: Arc::new(authority),
            anchor,
        })
    }

    fn read(certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let key = str::from_utf8(key).map_err(|_| "the private key is no text".to_owned())?;
        let authority = Authority::from_pem(certificate, key).map_err(|error| error.to_string())?;
        Self::new(authority).map_err(|error| error.to_string())
    }

    fn key_pem(&self) -> Vec<u8> {
        self.authority.key_pem().into_bytes()
    }

    pub(super) fn sign(&self, names: &[String], validity: Validity) -> Result<Leaf, CertError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let issued = self.authority.serving(&names, &[], validity)?;
        let (chain, key) = (issued.certificate_pem, issued.key_pem);
        let origin = Origin {
            certificate: "the certificate just made".to_owned(),
            key: "its key".to_owned(),
        };
        let pair = Pair::read(chain.as_bytes(), key.as_bytes(), &origin);
        Ok(Leaf {
            pair: pair.map_err(|error| CertError::Unreadable {
                reason: error.to_string(),
            })?,
            chain: chain.into_bytes(),
            key: key.into_bytes(),
        })
    }
}

/// The serving certificate as the Secret holds it.
#[derive(Clone)]
pub struct Leaf {
    /// Read and checked.
    pub pair: Pair,
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pair.fmt(f)
    }
}

/// The authorities in the Secret.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// Signs.
    pub current: Signer,
    /// Will sign, once every APIService trusts it.
    pub next: Option<Signer>,
    /// Signed once; trusted until they expire.
    pub retired: Vec<Anchor>,
    /// Those that left the Secret in another way, and when.
    pub departed: Departed,
}

impl Authorities {
    /// All to be trusted at a moment, the one that signs first.
    pub fn trusted(&self, now: SystemTime) -> impl Iterator<Item = &Anchor> {
        let retired = self.retired.iter();
        std::iter::once(&self.current.anchor)
            .chain(self.next.as_ref().map(|next| &next.anchor))
            .chain(retired.filter(move |anchor| anchor.not_after >= now))
    }

    /// Whether the authority that signs has signed this.
    fn vouch_for(&self, pair: &Pair) -> Result<(), String> {
        let name = pair.names().first().map_or("", String::as_str);
        let anchors = [self.current.anchor.certificate.clone()];
        // At any moment of its own time: this is about who signed it.
        vouched_for(pair, &anchors, name, pair.not_after()).map_err(|error| {
            format!("{CERTIFICATE}: not signed by the first authority of {CA_CERTIFICATE}: {error}")
        })
    }
}

/// Whether a client that trusts these authorities accepts the pair for a name,
/// as kube-apiserver would for `SERVICE.NAMESPACE.svc`.
pub(super) fn vouched_for(
    pair: &Pair,
    trusted: &[CertificateDer<'static>],
    name: &str,
    now: SystemTime,
) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for anchor in trusted {
        roots
            .add(anchor.clone())
            .map_err(|error| error.to_string())?;
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), default_provider().into())
            .build()
            .map_err(|error| error.to_string())?;
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let since_epoch = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (leaf, rest) = pair.chain().split_first().ok_or("an empty chain")?;
    let now = UnixTime::since_unix_epoch(since_epoch);
    let verified = verifier.verify_server_cert(leaf, rest, &name, &[], now);
    verified.map(|_| ()).map_err(|error| error.to_string())
}

/// The Secret's content, whole and consistent.
#[derive(Clone, Debug)]
pub struct Content {
    /// Who signs, who is trusted.
    pub authorities: Authorities,
    /// What is served.
    pub leaf: Leaf,
}

impl Content {
    /// As the Secret's values.
    #[must_use]
    pub fn data(&self, now: SystemTime) -> Data {
        let Authorities { current, next, .. } = &self.authorities;
        let bundle = bundle(self.authorities.trusted(now)).into_bytes();
        let mut data = Data::from([
            (CA_CERTIFICATE.to_owned(), bundle),
            (CA_KEY.to_owned(), current.key_pem()),
            (CERTIFICATE.to_owned(), self.leaf.chain.clone()),
            (KEY.to_owned(), self.leaf.key.clone()),
        ]);
        if self.authorities.departed != Departed::default() {
            let text = self.authorities.departed.text();
            data.insert(DEPARTED.to_owned(), text.into_bytes());
        }
        if let Some(next) = next {
            let certificate = pem_text(&next.anchor.certificate).into_bytes();
            data.insert(NEXT_CERTIFICATE.to_owned(), certificate);
            data.insert(NEXT_KEY.to_owned(), next.key_pem());
        }
        data
    }
}

/// What was found in the Secret.
#[derive(Clone, Debug)]
pub enum Found {
    /// As the manifests make it.
    Empty,
    /// No authority of ours to go on with; why.
    Broken(String),
    /// Authorities, and a serving certificate that is none; why.
    Leafless(Box<Authorities>, String),
    /// All is there.
    Whole(Box<Content>),
}

/// Reads the Secret's values. What they say of time is not judged.
#[must_use]
pub fn read(data: &Data) -> Found {
    if ALL.iter().all(|key| value(data, key).is_empty()) {
        return Found::Empty;
    }
    let authorities = match authorities(data) {
        Ok(authorities) => authorities,
        Err(why) => return Found::Broken(why),
    };
    match leaf(data, &authorities) {
        Ok(leaf) => Found::Whole(Box::new(Content { authorities, leaf })),
        Err(why) => Found::Leafless(Box::new(authorities), why),
    }
}

fn value<'a>(data: &'a Data, key: &str) -> &'a [u8] {
    data.get(key).map_or(&[], Vec::as_slice)
}

fn authorities(data: &Data) -> Result<Authorities, String> {
    let pem = value(data, CA_CERTIFICATE);
    let place = |why: String| format!("{CA_CERTIFICATE}: {why}");
    let mut anchors = anchors(pem).map_err(place)?;
    let current = Signer::read(pem, value(data, CA_KEY))
        .map_err(|why| format!("{CA_CERTIFICATE} and {CA_KEY}: {why}"))?;
    let next = value(data, NEXT_CERTIFICATE);
    let next = if next.is_empty() {
        None
    } else {
        // One that is broken is made again when the time has come.
        Signer::read(next, value(data, NEXT_KEY)).ok()
    };
    anchors.retain(|anchor| {
        let known = |signer: &Signer| signer.anchor.certificate == anchor.certificate;
        !known(&current) && !next.as_ref().is_some_and(known)
    });
    Ok(Authorities {
        current,
        next,
        retired: anchors,
        departed: Departed::read(value(data, DEPARTED)),
    })
}

fn leaf(data: &Data, authorities: &Authorities) -> Result<Leaf, String> {
    let origin = Origin {
        certificate: CERTIFICATE.to_owned(),
        key: KEY.to_owned(),
    };
    let (chain, key) = (value(data, CERTIFICATE), value(data, KEY));
    let pair = Pair::read(chain, key, &origin).map_err(|error| error.to_string())?;
    authorities.vouch_for(&pair)?;
    Ok(Leaf {
        pair,
        chain: chain.to_vec(),
        key: key.to_vec(),
    })
}
