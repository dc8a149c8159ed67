//! What to do with what was found: the rules, without I/O and clock.
//!
//! A new authority comes into force in three steps, each seen by all replicas
//! before the next: it is announced (`next.crt`), every APIService trusts it,
//! it signs. The old one stays trusted until it expires, and no certificate
//! outlives the authority that signed it. So whatever a replica serves, fresh
//! or long overtaken, is trusted wherever a replica wrote a bundle.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::content::{Authorities, Content, Found, Leaf, anchors};
use super::registration::{AUTHORITY_NAME, MOST_AUTHORITIES};
pub use super::settings::Lifetimes;
use crate::certificates::authority::{Anchor, Authority, CertError, Validity};
use crate::x509::moment;

/// More names than one change of the Service's name needs.
const MOST_NAMES: usize = 16;

/// What should be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The DNS names to serve.
    pub names: Vec<String>,
    /// How long certificates live.
    pub lifetimes: Lifetimes,
}

/// What to do with the Secret.
#[derive(Debug)]
pub enum Step {
    /// Nothing: it is as it should be.
    Keep(Content),
    /// Write this.
    Write(Content, Reason),
}

/// Why the Secret is written; the text is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The Secret was empty.
    First,
    /// It was emptied or broken, and we still knew what it held.
    Restored(String),
    /// It was broken, and nobody here knew what it held.
    Remade(String),
    /// The serving certificate was broken.
    LeafRemade(String),
    /// The serving certificate lacks a name.
    Names,
    /// The serving certificate nears its end.
    Renewed,
    /// The authority nears its end: another is announced.
    Announced,
    /// The announced authority is trusted everywhere: it signs now.
    Promoted,
    /// The authority has expired.
    Expired,
}

impl Reason {
    /// Whether somebody should look into it.
    pub(super) const fn is_alarming(&self) -> bool {
        use Reason::{Expired, LeafRemade, Remade, Restored};
        matches!(self, Restored(_) | Remade(_) | LeafRemade(_) | Expired)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("an authority and a serving certificate were made"),
            Self::Restored(why) => write!(f, "{why}: written again as it was before"),
            Self::Remade(why) => write!(f, "{why}: a new authority was made"),
            Self::LeafRemade(why) => write!(f, "{why}: a new serving certificate was made"),
            Self::Names => f.write_str("the serving certificate got our Service's names"),
            Self::Renewed => f.write_str("the serving certificate was renewed"),
            Self::Announced => f.write_str("a new authority was announced"),
            Self::Promoted => f.write_str("the new authority signs from now on"),
            Self::Expired => f.write_str("the authority had expired: a new one was made"),
        }
    }
}

/// What to do.
///
/// `memory` is what this replica read or wrote last; `bundles` are those of the
/// APIServices that are ours, read before the Secret was.
///
/// # Errors
/// When the system has no randomness to give, or a name is no DNS name.
pub fn decide(
    found: Found,
    memory: Option<&Content>,
    bundles: &[Vec<u8>],
    wanted: &Wanted,
    now: SystemTime,
) -> Result<Step, CertError> {
    let known = memory.filter(|known| !is_over(&known.authorities.current, now));
    let (lost, reason) = match found {
        Found::Whole(content) => return wanted.tend(content, bundles, now),
        Found::Leafless(authorities, _) if is_over(&authorities.current, now) => {
            return wanted.begin(Some(&authorities), now, Reason::Expired);
        }
        Found::Leafless(authorities, why) => {
            return wanted.issue(authorities, &[], now, Reason::LeafRemade(why));
        }
        Found::Empty => ("it was emptied".to_owned(), Reason::First),
        Found::Broken(why) => (why.clone(), Reason::Remade(why)),
    };
    match known {
        None => wanted.begin(None, now, reason),
        // Overtaken for so long that others may have forgotten it.
        Some(known) if known.leaf.pair.validity().not_after <= now => {
            wanted.begin(Some(&known.authorities), now, Reason::Remade(lost))
        }
        Some(known) => Ok(Step::Write(known.clone(), Reason::Restored(lost))),
    }
}

impl Wanted {
    /// All is there: is it still fresh?
    fn tend(
        &self,
        content: Content,
        bundles: &[Vec<u8>],
        now: SystemTime,
    ) -> Result<Step, CertError> {
        let Content { authorities, leaf } = content;
        let current = &authorities.current;
        let next = authorities.next.as_ref();
        let next = next.filter(|next| !is_over(next, now));
        if let Some(next) = next {
            let everywhere = bundles.iter().all(|pem| trusts(pem, next.anchor()));
            // An authority that has expired is trusted nowhere: nothing is
            // lost.
            if everywhere || is_over(current, now) {
                let promoted = Authorities {
                    current: Arc::clone(next),
                    next: None,
                    retired: retired(&authorities, now),
                };
                return self.issue(promoted, &[], now, Reason::Promoted);
            }
        }
        if is_over(current, now) {
            return self.begin(Some(&authorities), now, Reason::Expired);
        }
        let pair = &leaf.pair;
        if self.names.iter().any(|name| !pair.names().contains(name)) {
            let others = pair.names().to_vec();
            return self.issue(authorities, &others, now, Reason::Names);
        }
        // Renewed only if the new one lives longer: not at its authority's end.
        let last = self.leaf_validity(now, current.anchor()).not_after;
        if pair.validity().is_old(now) && last > pair.validity().not_after + self.lifetimes.skew {
            return self.issue(authorities, &[], now, Reason::Renewed);
        }
        if current.anchor().validity.is_old(now) && next.is_none() {
            let announced = Authorities {
                next: Some(self.authority(now)?),
                ..authorities
            };
            let content = Content {
                authorities: announced,
                leaf,
            };
            return Ok(Step::Write(content, Reason::Announced));
        }
        Ok(Step::Keep(Content { authorities, leaf }))
    }

    /// A new authority, at once; those before stay trusted.
    fn begin(
        &self,
        before: Option<&Authorities>,
        now: SystemTime,
        reason: Reason,
    ) -> Result<Step, CertError> {
        let authorities = Authorities {
            current: self.authority(now)?,
            next: None,
            retired: before.map_or_else(Vec::new, |before| retired(before, now)),
        };
        self.issue(authorities, &[], now, reason)
    }

    /// A new serving certificate. With the names of the one before, where
    /// replicas that want different ones would else take turns for ever.
    fn issue(
        &self,
        authorities: Authorities,
        others: &[String],
        now: SystemTime,
        reason: Reason,
    ) -> Result<Step, CertError> {
        let mut names = self.names.clone();
        let others = others.iter().filter(|name| !self.names.contains(name));
        names.extend(others.take(MOST_NAMES).cloned());
        let by = &authorities.current;
        let leaf = Leaf::make(by, &names, self.leaf_validity(now, by.anchor()))?;
        Ok(Step::Write(Content { authorities, leaf }, reason))
    }

    /// Never longer than its authority's.
    fn leaf_validity(&self, now: SystemTime, by: &Anchor) -> Validity {
        Validity {
            not_before: (now - self.lifetimes.skew).max(by.validity.not_before),
            not_after: (now + self.lifetimes.leaf).min(by.validity.not_after),
        }
    }

    fn authority(&self, now: SystemTime) -> Result<Arc<Authority>, CertError> {
        let validity = Validity {
            not_before: now - self.lifetimes.skew,
            not_after: now + self.lifetimes.authority,
        };
        let day: String = moment(now).chars().take("2026-11-21".len()).collect();
        Authority::new(&format!("{AUTHORITY_NAME} {day}"), validity).map(Arc::new)
    }
}

fn is_over(authority: &Authority, now: SystemTime) -> bool {
    authority.anchor().validity.not_after <= now
}

/// Who stays trusted when the one that signs steps back.
fn retired(before: &Authorities, now: SystemTime) -> Vec<Anchor> {
    let trusted = before.trusted(now);
    let fresh = trusted.filter(|anchor| anchor.validity.not_after >= now);
    fresh.take(MOST_AUTHORITIES).cloned().collect()
}

/// Whether a bundle holds an authority.
pub(super) fn trusts(pem: &[u8], anchor: &Anchor) -> bool {
    anchors(pem).is_ok_and(|anchors| anchors.contains(anchor))
}
