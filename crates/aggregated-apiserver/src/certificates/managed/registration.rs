//! Decides what to do with an APIService, without I/O and clock.

use std::cmp::Reverse;
use std::time::SystemTime;

use super::content::{Authorities, anchors, bundle};
use super::settings::{ManagedSettings, remedy_of_absence};
use super::store::{Change, Entry};
use crate::certificates::authority::Anchor;

/// The prefix of the authorities' common name; the date of issue follows.
pub(super) const AUTHORITY_NAME: &str = "gpu-metrics-apiserver authority";

/// The most authorities in a bundle, more than their rotation needs.
pub(super) const MOST_AUTHORITIES: usize = 8;

/// Whether the server writes this APIService's bundle.
pub(super) fn is_ours(settings: &ManagedSettings, entry: &Entry) -> bool {
    let ours = entry.service.as_ref() == Some(&settings.service);
    (ours || settings.take_over) && entry.injected.is_none()
}

/// The change that an APIService needs; `None`: none.
///
/// # Errors
/// When it is not the server's to change: why, with the remedy.
pub(super) fn plan(
    settings: &ManagedSettings,
    name: &str,
    entry: Option<&Entry>,
    authorities: &Authorities,
    now: SystemTime,
) -> Result<Option<Change>, String> {
    let Some(entry) = entry else {
        return Err(format!(
            "APIService {name} does not exist, so kube-apiserver sends the server no requests for it: {}",
            remedy_of_absence(name)
        ));
    };
    let ours = entry.service.as_ref() == Some(&settings.service);
    if !ours && !settings.take_over {
        return Err(foreign(settings, name, entry));
    }
    if let Some(annotation) = &entry.injected {
        return Err(format!(
            "APIService {name}: cert-manager writes its caBundle (annotation {annotation}), \
             so the server does not write it: remove the annotation, or serve cert-manager's \
             certificate with --tls-cert-file and --tls-private-key-file"
        ));
    }
    let wanted = bundle_for(&entry.bundle, authorities, now);
    // Compared as sets, so that replicas with different orders do not rewrite each other's
    // bundles. An invalid bundle is replaced.
    let same = anchors(&entry.bundle).is_ok_and(|there| {
        there.iter().all(|anchor| wanted.contains(anchor))
            && wanted.iter().all(|anchor| there.contains(anchor))
    });
    let change = Change {
        version: entry.version.clone(),
        bundle: bundle(&wanted),
        service: (!ours).then(|| settings.service.clone()),
    };
    Ok((!ours || entry.insecure || !same).then_some(change))
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

/// The authorities that a bundle should have.
///
/// An authority with this server's name stays until it expires: another replica may serve a
/// certificate of a newer Secret, or of one that was lost. Other authorities are not trusted.
fn bundle_for(there: &[u8], authorities: &Authorities, now: SystemTime) -> Vec<Anchor> {
    let mut wanted: Vec<Anchor> = authorities.trusted(now).cloned().collect();
    let mut kept = anchors(there).unwrap_or_default();
    kept.retain(|anchor| {
        let ours = anchor.name.starts_with(AUTHORITY_NAME);
        ours && anchor.validity.not_after >= now && !wanted.contains(anchor)
    });
    kept.sort_by_key(|anchor| Reverse(anchor.validity.not_after));
    kept.dedup();
    kept.truncate(MOST_AUTHORITIES.saturating_sub(wanted.len()));
    wanted.extend(kept);
    wanted
}
