//! Decides what to do with an APIService, without I/O and clock.

use super::store::{ApiService, Change};
use super::{ManagedSettings, RESOURCE_APISERVICES};

/// The change that an APIService needs to trust the authority `bundle`; `None`: none.
///
/// # Errors
/// When it is not the server's to change: why, with the remedy.
pub(super) fn plan(
    settings: &ManagedSettings,
    name: &str,
    found: Option<&ApiService>,
    bundle: &str,
) -> Result<Option<Change>, String> {
    let Some(found) = found else {
        let remedy = match RESOURCE_APISERVICES.contains(&name) {
            true => "apply manifests/optional/resource-metrics.yaml",
            false => "apply manifests/apiservices.yaml, or run helm upgrade",
        };
        return Err(format!(
            "APIService {name} does not exist, so kube-apiserver sends the server no requests for it: {remedy}"
        ));
    };
    let ours = found.service.as_ref() == Some(&settings.service);
    if !ours && !settings.take_over {
        let owner = match &found.service {
            Some(service) => format!("Service {service}"),
            None => "kube-apiserver itself".to_owned(),
        };
        return Err(format!(
            "APIService {name} refers to {owner} and not to this server's Service {}, and is not \
             changed: start with --take-over to take it over, or remove that server first",
            settings.service
        ));
    }
    if let Some(annotation) = &found.injected {
        return Err(format!(
            "APIService {name}: cert-manager writes its caBundle (annotation {annotation}), \
             so the server does not write it: remove the annotation, or serve cert-manager's \
             certificate with --tls-cert-file and --tls-private-key-file"
        ));
    }
    let is_right = ours && !found.insecure && found.bundle == bundle.as_bytes();
    Ok((!is_right).then(|| Change {
        version: found.version.clone(),
        bundle: bundle.to_owned(),
        service: (!ours).then(|| settings.service.clone()),
    }))
}
