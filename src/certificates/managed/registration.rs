//! What to do with an APIService: the rules, without I/O and clock.

use std::time::SystemTime;

use super::Settings;
use super::content::Authorities;
use super::store::{Change, Entry};
use super::trust::bundle_for;
use crate::certificates::Registration;

/// What to do with one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing; how it does.
    Leave(Registration),
    /// Write this.
    Write(Change),
}

impl Settings {
    /// Whether we write this one's bundle.
    pub(super) fn is_ours(&self, entry: &Entry) -> bool {
        let ours = entry.service.as_ref() == Some(&self.service);
        (ours || self.take_over) && entry.injected.is_none()
    }

    pub(super) fn plan(
        &self,
        name: &str,
        entry: Option<&Entry>,
        authorities: &Authorities,
        now: SystemTime,
    ) -> Plan {
        let Some(entry) = entry else {
            return Plan::Leave(Registration::Absent(format!(
                "APIService {name} is absent, so kube-apiserver does not ask us for it: apply \
                 manifests/apiservices.yaml"
            )));
        };
        let ours = entry.service.as_ref() == Some(&self.service);
        if !ours && !self.take_over {
            return Plan::Leave(Registration::Foreign(self.foreign(name, entry)));
        }
        if let Some(annotation) = &entry.injected {
            return Plan::Leave(Registration::Failing(format!(
                "APIService {name}: cert-manager writes its caBundle (annotation {annotation}), and \
                 we do not take turns: remove the annotation, or serve cert-manager's certificate \
                 with --tls-cert-file and --tls-private-key-file"
            )));
        }
        let bundle = bundle_for(&entry.bundle, authorities, &self.lifetimes, now);
        if ours && !entry.insecure && bundle.is_none() {
            return Plan::Leave(Registration::Registered);
        }
        let there = || String::from_utf8_lossy(&entry.bundle).into_owned();
        Plan::Write(Change {
            version: entry.version.clone(),
            bundle: bundle.unwrap_or_else(there),
            service: (!ours).then(|| self.service.clone()),
        })
    }

    fn foreign(&self, name: &str, entry: &Entry) -> String {
        let owner = entry.service.as_ref().map_or_else(
            || "kube-apiserver itself".to_owned(),
            |service| format!("Service {service}"),
        );
        format!(
            "APIService {name} belongs to {owner}, not to our Service {}, and is left alone: start \
             with --take-over to make it ours, or remove that server first",
            self.service
        )
    }
}
