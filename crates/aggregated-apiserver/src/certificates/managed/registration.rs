//! Decides what to do with an APIService, without I/O and clock.

use std::cmp::Reverse;
use std::time::SystemTime;

use super::content::{Authorities, anchors, bundle};
use super::settings::{ManagedSettings, remedy_of_absence};
use super::store::{Change, Entry};
use crate::certificates::Registration;
use crate::certificates::authority::Anchor;

/// The prefix of the authorities' common name; the date of issue follows.
pub(super) const AUTHORITY_NAME: &str = "gpu-metrics-apiserver authority";

/// The most authorities in a bundle, more than their rotation needs.
pub(super) const MOST_AUTHORITIES: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Do not write it; its state.
    Leave(Registration),
    Write(Change),
}

/// Whether the server writes this APIService's bundle.
pub(super) fn is_ours(settings: &ManagedSettings, entry: &Entry) -> bool {
    let ours = entry.service.as_ref() == Some(&settings.service);
    (ours || settings.take_over) && entry.injected.is_none()
}

pub(super) fn plan(
    settings: &ManagedSettings,
    name: &str,
    entry: Option<&Entry>,
    authorities: &Authorities,
    now: SystemTime,
) -> Plan {
    let Some(entry) = entry else {
        return Plan::Leave(Registration::Failing(format!(
            "APIService {name} does not exist, so kube-apiserver sends the server no requests for it: {}",
            remedy_of_absence(name)
        )));
    };
    let ours = entry.service.as_ref() == Some(&settings.service);
    if !ours && !settings.take_over {
        return Plan::Leave(Registration::Failing(foreign(settings, name, entry)));
    }
    if let Some(annotation) = &entry.injected {
        return Plan::Leave(Registration::Failing(format!(
            "APIService {name}: cert-manager writes its caBundle (annotation {annotation}), \
             so the server does not write it: remove the annotation, or serve cert-manager's \
             certificate with --tls-cert-file and --tls-private-key-file"
        )));
    }
    let bundle = bundle_for(&entry.bundle, authorities, now);
    if ours && !entry.insecure && bundle.is_none() {
        return Plan::Leave(Registration::Registered);
    }
    let there = || String::from_utf8_lossy(&entry.bundle).into_owned();
    Plan::Write(Change {
        version: entry.version.clone(),
        bundle: bundle.unwrap_or_else(there),
        service: (!ours).then(|| settings.service.clone()),
    })
}

fn foreign(settings: &ManagedSettings, name: &str, entry: &Entry) -> String {
    let owner = entry.service.as_ref().map_or_else(
        || "kube-apiserver itself".to_owned(),
        |service| format!("Service {service}"),
    );
    format!(
        "APIService {name} refers to {owner} and not to this server's Service {}, and is not \
         changed: start with --take-over to take it over, or remove that server first",
        settings.service
    )
}

/// The bundle to write in place of the present one; `None`: the present one is right.
///
/// An authority with this server's name stays until it expires: another replica may know a
/// newer Secret, or one that was lost. Other authorities are not trusted.
fn bundle_for(there: &[u8], authorities: &Authorities, now: SystemTime) -> Option<String> {
    let mut wanted: Vec<Anchor> = authorities.trusted(now).cloned().collect();
    // Nothing of an invalid bundle is kept.
    let there = anchors(there).ok();
    let kept = there.iter().flatten().filter(|anchor| {
        let ours = anchor.name.starts_with(AUTHORITY_NAME);
        ours && anchor.validity.not_after >= now && !wanted.contains(anchor)
    });
    let mut kept: Vec<Anchor> = kept.cloned().collect();
    kept.sort_by_key(|anchor| Reverse(anchor.validity.not_after));
    kept.dedup();
    kept.truncate(MOST_AUTHORITIES.saturating_sub(wanted.len()));
    wanted.extend(kept);
    // Compared as sets, so that replicas with different orders do not rewrite each other's
    // bundles.
    let same = there.is_some_and(|there| {
        there.iter().all(|anchor| wanted.contains(anchor))
            && wanted.iter().all(|anchor| there.contains(anchor))
    });
    (!same).then(|| bundle(&wanted))
}
