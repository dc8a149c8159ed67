//! Decides what to do with the Secret, without I/O and clock.
//!
//! A new authority is in the bundles for a day before it signs. It signs only after it was read
//! from every APIService, or when the serving certificate has expired. The old authority stays
//! trusted until it expires, and no certificate outlives the authority that signed it. Every
//! bundle that a replica wrote therefore trusts the certificate of each replica, current or old.

use std::sync::Arc;
use std::time::SystemTime;

use super::content::{ALL, Authorities, Content, Data, anchors, pair, value};
use super::registration::{AUTHORITY_NAME, MOST_AUTHORITIES};
use super::settings::{AUTHORITY_LIFE, JOINING, LIFE, ManagedSettings, SKEW, service_names};
use crate::certificates::authority::{Anchor, CertificateAuthority, Validity};
use crate::x509::moment;

/// The content that the Secret should have, and why to write it; `None`: it is stored already.
pub type SecretStep = (Content, Option<Reason>);

/// Why the Secret is written, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A step of the certificates' life.
    Usual(&'static str),
    /// An unexpected state, which an operator should investigate, and what was done.
    Alarming(String),
}

/// Decides what to do about these values of the Secret. `known` are the authorities that the
/// Secret had before, and `bundles` the bundles of the server's APIServices.
///
/// # Errors
/// When the system provides no randomness, or a name is no DNS name.
pub fn decide(
    data: &Data,
    (known, bundles): (Option<&Authorities>, &[Vec<u8>]),
    settings: &ManagedSettings,
    now: SystemTime,
) -> Result<SecretStep, String> {
    let (authorities, added) = match Authorities::read(data) {
        Ok(stored) if !stored.current.anchor().validity.is_old(now) => (stored, None),
        Ok(old) => {
            let text = "a new authority was added to the bundles, and signs after a day";
            (begin(Some(&old), now)?, Some(Reason::Usual(text)))
        }
        Err(why) => {
            let is_empty = ALL.iter().all(|key| value(data, key).is_empty());
            let reason = if is_empty {
                Reason::Usual("an authority and a serving certificate were made")
            } else {
                Reason::Alarming(format!("{why}: a new authority was made"))
            };
            return issue(settings, begin(known, now)?, Vec::new(), now, reason);
        }
    };
    let names = service_names(&settings.service);
    let mut others = Vec::new();
    let reason = match authorities.signed_pair(data) {
        Err(why) => Reason::Alarming(format!("{why}: a new serving certificate was made")),
        Ok(pair) if names.iter().any(|name| !pair.names().contains(name)) => {
            others = pair.names().to_vec();
            Reason::Usual("the names of the Service were added to the serving certificate")
        }
        Ok(pair) if authorities.current_signed(&pair) && pair.validity().is_old(now) => {
            Reason::Usual("the serving certificate was renewed")
        }
        Ok(pair)
            if !authorities.current_signed(&pair)
                && (may_sign(&authorities, bundles, now) || pair.validity().not_after <= now) =>
        {
            Reason::Usual("a new authority signs from now on")
        }
        Ok(pair) => return Ok((Content { authorities, pair }, added)),
    };
    issue(settings, authorities, others, now, reason)
}

/// When the newest authority is a day old. kube-apiserver reads the APIServices a little later
/// than a replica writes them; by then it has read them.
pub(super) fn joined(authorities: &Authorities) -> SystemTime {
    authorities.current.anchor().validity.not_before + SKEW + JOINING
}

/// Whether the newest authority may sign: it is a day old and in all bundles.
fn may_sign(authorities: &Authorities, bundles: &[Vec<u8>], now: SystemTime) -> bool {
    let has = |anchors: Vec<Anchor>| anchors.contains(authorities.current.anchor());
    joined(authorities) <= now && bundles.iter().all(|pem| anchors(pem).is_ok_and(has))
}

/// Creates a new authority. Former ones stay trusted.
fn begin(former: Option<&Authorities>, now: SystemTime) -> Result<Authorities, String> {
    let validity = Validity {
        not_before: now - SKEW,
        not_after: now + AUTHORITY_LIFE,
    };
    let day: String = moment(now).chars().take("2026-11-21".len()).collect();
    let current = CertificateAuthority::new(&format!("{AUTHORITY_NAME} {day}"), validity)?;
    let retired = former.into_iter().flat_map(|former| former.trusted(now));
    Ok(Authorities {
        current: Arc::new(current),
        retired: retired.take(MOST_AUTHORITIES).cloned().collect(),
    })
}

/// Issues a serving certificate. `others` are names of the former one to keep. Without them,
/// replicas whose Services differ would replace each other's certificate for ever.
fn issue(
    settings: &ManagedSettings,
    authorities: Authorities,
    mut others: Vec<String>,
    now: SystemTime,
    reason: Reason,
) -> Result<SecretStep, String> {
    let names = service_names(&settings.service);
    others.retain(|name| !names.contains(name));
    let names: Vec<&str> = names.iter().chain(&others).map(String::as_str).collect();
    let by = authorities.current.anchor().validity;
    let validity = Validity {
        not_before: (now - SKEW).max(by.not_before),
        not_after: (now + LIFE).min(by.not_after),
    };
    let issued = authorities.current.serving(&names, &[], validity)?;
    let (chain, key) = (issued.certificate_pem, issued.key_pem);
    let pair = pair(chain.as_bytes(), key.as_bytes())?;
    Ok((Content { authorities, pair }, Some(reason)))
}
