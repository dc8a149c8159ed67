//! The serving certificates: the tasks that renew them, their health checks and metrics.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::server::ResolvesServerCert;

use super::super::finding_reports;
use super::super::shutdown::Shutdown;
use super::{Background, CertificateSource, numbers};
use crate::telemetry::health::Weight;
use aggregated_apiserver::certificates::files;
use aggregated_apiserver::certificates::managed;
use aggregated_apiserver::certificates::named::{ByName, Named, NamedFiles};
use aggregated_apiserver::certificates::{self, Serving};
use cluster_state::certificates::CertificateObjects;
use cluster_state::client::Client;
use findings::codes::GM105;
use findings::own;

impl Background {
    /// Starts the tasks for the default certificate and for those by name. Returns the
    /// resolver for TLS.
    pub(super) fn keep_certificates(
        &mut self,
        source: CertificateSource,
        named: Vec<NamedFiles>,
        client: &Client,
        shutdown: &Shutdown,
    ) -> Arc<dyn ResolvesServerCert> {
        let default = self.keep_certificate(source, client, shutdown);
        if named.is_empty() {
            return Arc::new(default);
        }
        let named = self.follow_named(named, shutdown);
        Arc::new(ByName::new(named, default))
    }

    fn keep_certificate(
        &mut self,
        source: CertificateSource,
        client: &Client,
        shutdown: &Shutdown,
    ) -> Serving {
        let (publisher, serving) = certificates::serving();
        let draining = shutdown.draining();
        match source {
            CertificateSource::Files(files) => {
                let kept = files::run(files, publisher, draining);
                self.tasks.spawn_draining("serving certificate", kept);
            }
            CertificateSource::Managed(settings, name) => {
                let namespace = settings.service.namespace.clone();
                let objects = CertificateObjects::new(client.clone(), namespace, name);
                let kept = managed::run(settings, objects, publisher, draining);
                self.tasks.spawn_draining("serving certificate", kept);
            }
        }
        let status = serving.status.clone();
        let health = &self.telemetry.health;
        health.ask("certificate", Weight::Readiness, move || {
            status.borrow().ready(SystemTime::now()).err()
        });
        let status = serving.status.clone();
        health.ask("registration", Weight::Detail, move || {
            status.borrow().registered().err()
        });
        numbers::of_certificates(
            &self.telemetry.metrics,
            "serving",
            vec![serving.status.clone()],
        );
        let status = serving.status.clone();
        let lost = finding_reports::own(&self.telemetry.metrics, &GM105, move || {
            let status = status.borrow();
            let trouble = status.lost()?;
            Some(own::certificate(&trouble.text, &trouble.remedy))
        });
        self.own.push(lost);
        serving
    }

    /// Starts the tasks for certificates by name. A name whose pair is missing gets the
    /// default certificate, which is not valid for it. Readiness does not depend on that,
    /// because the other names still work.
    fn follow_named(&mut self, named: Vec<NamedFiles>, shutdown: &Shutdown) -> Vec<Named> {
        let (mut followed, mut statuses) = (Vec::new(), Vec::new());
        for NamedFiles { files, names } in named {
            let (publisher, serving) = certificates::serving();
            let draining = shutdown.draining();
            let kept = files::run(files, publisher, draining);
            self.tasks.spawn_draining("certificate by name", kept);
            statuses.push(serving.status.clone());
            followed.push(Named { names, serving });
        }
        let asked = statuses.clone();
        let health = &self.telemetry.health;
        health.ask("named-certificates", Weight::Detail, move || {
            let now = SystemTime::now();
            let said = asked.iter().filter_map(|it| it.borrow().ready(now).err());
            said.reduce(|one, other| format!("{one}; {other}"))
        });
        numbers::of_certificates(&self.telemetry.metrics, "named", statuses);
        followed
    }
}
