//! Decides what to do with the Secret, without I/O and clock.
//!
//! A new authority is in the bundles for a day before it signs. It signs only after it was read
//! from every APIService, or when the serving certificate has expired. The old authority stays
//! trusted until it expires, and no certificate outlives the authority that signed it. Every
//! bundle that a replica wrote therefore trusts the certificate of each replica, current or old.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::content::{Authorities, Content, FoundContent, anchors, pair};
use super::registration::{AUTHORITY_NAME, MOST_AUTHORITIES};
use super::settings::{AUTHORITY_LIFE, ManagedSettings, SKEW, service_names};
use crate::certificates::authority::{Anchor, CertError, CertificateAuthority, Validity};
use crate::x509::moment;

/// How long a new authority is in the bundles before it signs.
const JOINING: Duration = Duration::from_secs(24 * 3600);

/// The content that the Secret should have, and why to write it; `None`: it is stored already.
pub type SecretStep = (Content, Option<Reason>);

/// Why the Secret is written, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The log's text.
    pub text: String,
    /// Whether the log line is a warning: an operator should investigate.
    pub alarming: bool,
}

impl Reason {
    fn usual(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            alarming: false,
        }
    }

    /// An unexpected state, and the remedy applied.
    fn alarming(what: &str, done: &str) -> Self {
        Self {
            text: format!("{what}: {done}"),
            alarming: true,
        }
    }

    fn expired() -> Self {
        Self::alarming("the authority had expired", "a new one was made")
    }
}

/// Decides what to do.
///
/// `memory` is the content that this replica read or wrote last; `bundles` are the bundles
/// of the server's APIServices.
///
/// # Errors
/// When the system provides no randomness, or a name is no DNS name.
pub fn decide(
    found: FoundContent,
    memory: Option<&Content>,
    (wanted, bundles): (&ManagedSettings, &[Vec<u8>]),
    now: SystemTime,
) -> Result<SecretStep, CertError> {
    let known = memory.filter(|known| !is_over(&known.authorities.current, now));
    let lost = match found {
        FoundContent::Whole(content) => return wanted.tend(content, bundles, now),
        FoundContent::Leafless(authorities, _) if is_over(&authorities.current, now) => {
            return wanted.begin(Some(&authorities), now, Reason::expired());
        }
        FoundContent::Leafless(authorities, why) => {
            let reason = Reason::alarming(&why, "a new serving certificate was made");
            return wanted.issue(authorities, &[], now, reason);
        }
        FoundContent::Empty if known.is_none() => {
            let reason = Reason::usual("an authority and a serving certificate were made");
            return wanted.begin(None, now, reason);
        }
        FoundContent::Empty => "it was emptied".to_owned(),
        FoundContent::Broken(why) => why,
    };
    // A remembered content with an expired certificate is too old: other replicas may have
    // dropped its authorities since.
    let before = known.map(|known| &known.authorities);
    let known = known.filter(|known| known.pair.validity().not_after > now);
    if let Some(known) = known {
        let reason = Reason::alarming(&lost, "written again as it was before");
        return Ok((known.clone(), Some(reason)));
    }
    let reason = Reason::alarming(&lost, "a new authority was made");
    wanted.begin(before, now, reason)
}

impl ManagedSettings {
    fn tend(
        &self,
        content: Content,
        bundles: &[Vec<u8>],
        now: SystemTime,
    ) -> Result<SecretStep, CertError> {
        let signs = content.signer() == content.authorities.current.anchor();
        let Content { authorities, pair } = content;
        let anchor = authorities.current.anchor();
        if is_over(&authorities.current, now) {
            return self.begin(Some(&authorities), now, Reason::expired());
        }
        if signs && anchor.validity.is_old(now) {
            let authorities = Authorities {
                current: self.authority(now)?,
                retired: retired(&authorities, now),
            };
            let reason =
                Reason::usual("a new authority was added to the bundles, and signs after a day");
            return Ok((Content { authorities, pair }, Some(reason)));
        }
        let joined = anchor.validity.not_before + SKEW + JOINING;
        let may_sign = joined <= now && trusted_everywhere(bundles, anchor);
        if !signs && (may_sign || pair.validity().not_after <= now) {
            let reason = Reason::usual("a new authority signs from now on");
            return self.issue(authorities, &[], now, reason);
        }
        let names = service_names(&self.service);
        if names.iter().any(|name| !pair.names().contains(name)) {
            let others = pair.names().to_vec();
            let reason =
                Reason::usual("the names of the Service were added to the serving certificate");
            return self.issue(authorities, &others, now, reason);
        }
        if signs && pair.validity().is_old(now) {
            let reason = Reason::usual("the serving certificate was renewed");
            return self.issue(authorities, &[], now, reason);
        }
        Ok((Content { authorities, pair }, None))
    }

    /// Creates a new authority, which signs at once. Former ones stay trusted.
    fn begin(
        &self,
        before: Option<&Authorities>,
        now: SystemTime,
        reason: Reason,
    ) -> Result<SecretStep, CertError> {
        let authorities = Authorities {
            current: self.authority(now)?,
            retired: before.map_or_else(Vec::new, |before| retired(before, now)),
        };
        self.issue(authorities, &[], now, reason)
    }

    /// Issues a serving certificate. `others` are names of the previous one to keep.
    /// Without them, replicas configured with different names would replace each other's
    /// certificate for ever.
    fn issue(
        &self,
        authorities: Authorities,
        others: &[String],
        now: SystemTime,
        reason: Reason,
    ) -> Result<SecretStep, CertError> {
        let mut names = service_names(&self.service);
        for name in others {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let by = &authorities.current;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let issued = by.serving(&names, &[], self.leaf_validity(now, by.anchor()))?;
        let (chain, key) = (issued.certificate_pem, issued.key_pem);
        let pair = pair(chain.as_bytes(), key.as_bytes()).map_err(CertError::Unreadable)?;
        Ok((Content { authorities, pair }, Some(reason)))
    }

    fn leaf_validity(&self, now: SystemTime, by: &Anchor) -> Validity {
        Validity {
            not_before: (now - SKEW).max(by.validity.not_before),
            not_after: (now + self.life).min(by.validity.not_after),
        }
    }

    fn authority(&self, now: SystemTime) -> Result<Arc<CertificateAuthority>, CertError> {
        let validity = Validity {
            not_before: now - SKEW,
            not_after: now + AUTHORITY_LIFE,
        };
        let day: String = moment(now).chars().take("2026-11-21".len()).collect();
        CertificateAuthority::new(&format!("{AUTHORITY_NAME} {day}"), validity).map(Arc::new)
    }
}

fn is_over(authority: &CertificateAuthority, now: SystemTime) -> bool {
    authority.anchor().validity.not_after <= now
}

/// The authorities that stay trusted when a new one signs.
fn retired(before: &Authorities, now: SystemTime) -> Vec<Anchor> {
    let fresh = |anchor: &&Anchor| anchor.validity.not_after >= now;
    let trusted = before.trusted(now).filter(fresh);
    trusted.take(MOST_AUTHORITIES).cloned().collect()
}

pub(super) fn trusted_everywhere(bundles: &[Vec<u8>], anchor: &Anchor) -> bool {
    let mut bundles = bundles.iter();
    bundles.all(|pem| anchors(pem).is_ok_and(|anchors| anchors.contains(anchor)))
}
