//! What to do with what was found: the rules, without I/O and clock.
//!
//! A new authority comes into force in three steps, each seen by all replicas
//! before the next: it is announced (`next.crt`), every APIService trusts it,
//! it signs. The old one stays trusted until it expires, and no certificate
//! outlives the authority that signed it. So whatever a replica serves, fresh
//! or long overtaken, is trusted wherever a replica wrote a bundle.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::content::{
    AUTHORITY_NAME, Anchor, Authorities, Content, Found, Leaf, MOST_AUTHORITIES, Signer, anchors,
};
use super::departed::Departed;
use crate::certificates::authority::{Authority, CertError, Validity};
use crate::certificates::pair::moment;

/// How long certificates live.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// An authority.
    pub authority: Duration,
    /// A serving certificate.
    pub leaf: Duration,
    /// How far clocks may be apart: certificates are valid that much earlier
    /// than they are made.
    pub skew: Duration,
}

impl Lifetimes {
    /// How long an authority may be in use that the Secret does not hold: for
    /// the life of the last certificate it can have signed.
    pub(super) fn of_departed(&self) -> Duration {
        self.leaf + 2 * self.skew
    }
}

const HOUR: Duration = Duration::from_secs(3600);

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            authority: HOUR * 24 * 365,
            leaf: HOUR * 24 * 90,
            skew: HOUR,
        }
    }
}

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
    Keep(Box<Content>),
    /// Write this.
    Write(Box<Content>, Reason),
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
    /// It held authorities that are not of our making.
    Sifted,
    /// Bundles hold other authorities than it does.
    Departed,
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
            Self::Sifted => f.write_str(
                "it held authorities that are not of our making: they were taken out; find out \
                 who writes this Secret",
            ),
            Self::Departed => f.write_str(
                "it does not hold all authorities that our APIServices trust: since when was \
                 noted, so that they are not trusted for longer than needed",
            ),
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
    decide_at(found, memory, bundles, wanted, (now, now))
}

/// The same where the pass began at `now` and the Secret was read at `read`:
/// whoever was not in it had left by then.
pub(super) fn decide_at(
    found: Found,
    memory: Option<&Content>,
    bundles: &[Vec<u8>],
    wanted: &Wanted,
    (now, read): (SystemTime, SystemTime),
) -> Result<Step, CertError> {
    let (found, sifted) = wanted.sift(found);
    let step = wanted.step(found, memory, bundles, now)?;
    Ok(wanted.note(step, sifted, bundles, (now, read)))
}

impl Wanted {
    fn step(
        &self,
        found: Found,
        memory: Option<&Content>,
        bundles: &[Vec<u8>],
        now: SystemTime,
    ) -> Result<Step, CertError> {
        match found {
            Found::Whole(content) => self.tend(content, bundles, now),
            Found::Leafless(authorities, why) if authorities.current.anchor.not_after > now => {
                self.issue(*authorities, &[], now, Reason::LeafRemade(why))
            }
            Found::Leafless(authorities, _) => self.begin(Some(&authorities), now, Reason::Expired),
            Found::Empty => self.recover(None, memory, now),
            Found::Broken(why) => self.recover(Some(why), memory, now),
        }
    }

    /// Nothing usable is in the Secret.
    fn recover(
        &self,
        why: Option<String>,
        memory: Option<&Content>,
        now: SystemTime,
    ) -> Result<Step, CertError> {
        let known = memory.filter(|known| known.authorities.current.anchor.not_after > now);
        match (known, why) {
            // Overtaken for so long that others may have forgotten it.
            (Some(known), why) if known.leaf.pair.not_after() <= now => {
                let why = why.unwrap_or_else(|| "it was emptied".to_owned());
                self.begin(Some(&known.authorities), now, Reason::Remade(why))
            }
            (Some(known), why) => {
                let why = why.unwrap_or_else(|| "it was emptied".to_owned());
                let mut content = Box::new(known.clone());
                // Whoever we knew as gone may have been back since.
                content.authorities.departed = Departed::default();
                Ok(Step::Write(content, Reason::Restored(why)))
            }
            (None, Some(why)) => self.begin(None, now, Reason::Remade(why)),
            (None, None) => self.begin(None, now, Reason::First),
        }
    }

    /// All is there: is it still fresh?
    fn tend(
        &self,
        content: Box<Content>,
        bundles: &[Vec<u8>],
        now: SystemTime,
    ) -> Result<Step, CertError> {
        let Content { authorities, leaf } = *content;
        let current = &authorities.current.anchor;
        let usable = |next: &&Signer| next.anchor.not_after > now;
        if let Some(next) = authorities.next.as_ref().filter(usable) {
            let everywhere = bundles.iter().all(|pem| trusts(pem, &next.anchor));
            // One that has expired is trusted nowhere: nothing is lost.
            if everywhere || current.not_after <= now {
                return self.promote(&authorities, next.clone(), now);
            }
        }
        if current.not_after <= now {
            return self.begin(Some(&authorities), now, Reason::Expired);
        }
        let pair = &leaf.pair;
        if self.names.iter().any(|name| !pair.names().contains(name)) {
            let others = pair.names().to_vec();
            return self.issue(authorities, &others, now, Reason::Names);
        }
        let last = self.leaf_validity(now, current).not_after;
        let ends = is_old(pair.not_before(), pair.not_after(), now);
        if ends && last > pair.not_after() + self.lifetimes.skew {
            return self.issue(authorities, &[], now, Reason::Renewed);
        }
        if is_old(current.not_before, current.not_after, now)
            && authorities.next.as_ref().filter(usable).is_none()
        {
            let next = Some(self.signer(now)?);
            let authorities = Authorities {
                next,
                ..authorities
            };
            let content = Content { authorities, leaf };
            return Ok(Step::Write(Box::new(content), Reason::Announced));
        }
        Ok(Step::Keep(Box::new(Content { authorities, leaf })))
    }

    fn promote(&self, old: &Authorities, next: Signer, now: SystemTime) -> Result<Step, CertError> {
        let authorities = Authorities {
            current: next,
            next: None,
            retired: retired(old, now),
            departed: old.departed.clone(),
        };
        self.issue(authorities, &[], now, Reason::Promoted)
    }

    /// A new authority, at once; those before stay trusted.
    fn begin(
        &self,
        before: Option<&Authorities>,
        now: SystemTime,
        reason: Reason,
    ) -> Result<Step, CertError> {
        let authorities = Authorities {
            current: self.signer(now)?,
            next: None,
            retired: before.map_or_else(Vec::new, |before| retired(before, now)),
            departed: before.map_or_else(Departed::default, |before| before.departed.clone()),
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
        let leaf = self.leaf(&authorities.current, &names, now)?;
        let content = Box::new(Content { authorities, leaf });
        Ok(Step::Write(content, reason))
    }

    fn leaf(&self, by: &Signer, names: &[String], now: SystemTime) -> Result<Leaf, CertError> {
        by.sign(names, self.leaf_validity(now, &by.anchor))
    }

    /// Never longer than its authority's.
    fn leaf_validity(&self, now: SystemTime, by: &Anchor) -> Validity {
        Validity {
            not_before: (now - self.lifetimes.skew).max(by.not_before),
            not_after: (now + self.lifetimes.leaf).min(by.not_after),
        }
    }

    fn signer(&self, now: SystemTime) -> Result<Signer, CertError> {
        let validity = Validity {
            not_before: now - self.lifetimes.skew,
            not_after: now + self.lifetimes.authority,
        };
        let day: String = moment(now).chars().take("2026-11-21".len()).collect();
        Signer::new(Authority::new(
            &format!("{AUTHORITY_NAME} {day}"),
            validity,
        )?)
    }
}

/// Who stays trusted when the one that signs steps back.
fn retired(before: &Authorities, now: SystemTime) -> Vec<Anchor> {
    let trusted = before.trusted(now);
    let mut retired: Vec<Anchor> = trusted
        .filter(|anchor| anchor.not_after >= now)
        .cloned()
        .collect();
    retired.truncate(MOST_AUTHORITIES);
    retired
}

/// Whether two thirds of a life are over.
fn is_old(not_before: SystemTime, not_after: SystemTime, now: SystemTime) -> bool {
    let life = not_after.duration_since(not_before).unwrap_or_default();
    now >= not_before + life * 2 / 3
}

/// Whether a bundle holds an authority.
pub(super) fn trusts(pem: &[u8], anchor: &Anchor) -> bool {
    let found = anchors(pem).unwrap_or_default();
    found
        .iter()
        .any(|known| known.certificate == anchor.certificate)
}
