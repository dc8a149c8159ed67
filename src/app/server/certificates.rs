//! The serving certificate: the task that renews it, its health checks and metrics.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::server::ResolvesServerCert;

use super::super::finding_reports;
use super::super::shutdown::Shutdown;
use super::{Background, CertificateSource, metrics};
use crate::telemetry::health::Weight;
use aggregated_apiserver::certificates;
use aggregated_apiserver::certificates::files;
use cluster_state::certificates::run;
use cluster_state::client::Client;
use findings::codes::GM105;
use findings::own;

impl Background {
    /// Starts the task that keeps the certificate. Returns the resolver for TLS.
    pub(super) fn keep_certificate(
        &mut self,
        source: CertificateSource,
        client: &Client,
        shutdown: &Shutdown,
    ) -> Arc<dyn ResolvesServerCert> {
        let (publisher, serving) = certificates::serving();
        let draining = shutdown.draining();
        match source {
            CertificateSource::Files(files) => {
                let kept = files::run(files, publisher, draining);
                self.tasks.spawn_draining("serving certificate", kept);
            }
            CertificateSource::Made(pair) => publisher.serve(pair),
            CertificateSource::Managed(settings) => {
                let kept = run(settings, client.clone(), publisher, draining);
                self.tasks.spawn_draining("serving certificate", kept);
            }
        }
        let status = serving.status.clone();
        let health = &self.telemetry.health;
        health.register_fn("certificate", Weight::Readiness, move || {
            status.borrow().ready(SystemTime::now()).err()
        });
        let status = serving.status.clone();
        health.register_fn("registration", Weight::Detail, move || {
            status.borrow().registered().err()
        });
        metrics::of_certificate(&self.telemetry.metrics, serving.status.clone());
        let status = serving.status.clone();
        let lost = finding_reports::own(&self.telemetry.metrics, &GM105, move || {
            status.borrow().lost().map(own::certificate)
        });
        self.own.push(lost);
        Arc::new(serving)
    }
}
