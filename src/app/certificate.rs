//! The serving certificate: its source, the task that renews it, its health and metrics.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::RunError;
use super::tasks::Tasks;
use crate::cli::flags::Listening;
use crate::telemetry::Telemetry;
use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use aggregated_apiserver::certificates::files::{self, Files};
use aggregated_apiserver::certificates::pair::Pair;
use aggregated_apiserver::certificates::{self, CertificateStatus, Serving};
use cluster_state::client::Client;
use cluster_state::registration::{
    APISERVICES, RESOURCE_APISERVICES, RegistrationSettings, ServiceName,
};
use configuration::flags::SERVICE_ACCOUNT;

const HOUR: Duration = Duration::from_secs(3600);

/// Longer than a process runs.
const TEN_YEARS: Duration = Duration::from_secs(3650 * 86_400);

/// Starts what keeps the certificate: that of files, else one that the server issues and
/// registers, else one that is made now.
pub(super) fn start(
    flags: &Listening,
    has_resource_rules: bool,
    client: &Client,
    telemetry: &Telemetry,
    tasks: &mut Tasks,
) -> Result<Serving, RunError> {
    let (publisher, serving) = certificates::serving();
    let service = service(flags);
    if let Some(files) = files(flags) {
        tasks.spawn("serving certificate", files::run(files, publisher));
    } else if let (Some(service), None) = (&service, &flags.cert_dir) {
        let mut apiservices = APISERVICES.to_vec();
        if has_resource_rules {
            apiservices.extend(RESOURCE_APISERVICES);
        }
        let settings = RegistrationSettings {
            service: service.clone(),
            secret: flags.certificate_secret.clone(),
            apiservices,
            take_over: flags.take_over,
        };
        let kept = cluster_state::certificates::run(settings, client.clone(), publisher);
        tasks.spawn("serving certificate", kept);
    } else {
        publisher.serve(in_memory(service.as_ref())?);
    }
    show(telemetry, &serving.status);
    Ok(serving)
}

/// The files of the flags, or a pair with one of the usual names in the directory.
fn files(flags: &Listening) -> Option<Files> {
    if let Some(certificate) = flags.tls_cert_file.clone() {
        let key = flags.tls_private_key_file.clone()?;
        return Some(Files { certificate, key });
    }
    let at = |file: String| Some(flags.cert_dir.as_ref()?.join(file));
    ["tls", "apiserver"].into_iter().find_map(|name| {
        let (certificate, key) = (at(format!("{name}.crt"))?, at(format!("{name}.key"))?);
        let files = Files { certificate, key };
        // If one of the two is missing, the server reports it and waits for it.
        (files.certificate.exists() || files.key.exists()).then_some(files)
    })
}

/// A pair that lasts as long as the process, as prometheus-adapter makes it.
fn in_memory(service: Option<&ServiceName>) -> Result<Pair, RunError> {
    let now = SystemTime::now();
    let validity = Validity {
        not_before: now - HOUR,
        not_after: now + TEN_YEARS,
    };
    let of_service = service.map(ServiceName::dns_names);
    let names = of_service.iter().flatten().map(String::as_str);
    let names: Vec<&str> = names.chain(["localhost", "127.0.0.1"]).collect();
    let authority = CertificateAuthority::new("gpu-metrics-apiserver", validity);
    let issued = authority.and_then(|it| it.serving(&names, validity));
    let pair = issued.and_then(Pair::issued);
    let pair = pair.map_err(RunError::Service)?;
    tracing::warn!(
        "made a self-signed certificate, which kube-apiserver cannot verify: without --cert-dir, \
         and outside of a pod with --service NAMESPACE/NAME, the server issues one that it can \
         verify"
    );
    Ok(pair)
}

/// The server's Service. A name without a namespace is in the pod's namespace.
fn service(flags: &Listening) -> Option<ServiceName> {
    let (namespace, name) = match flags.service.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name),
        None => {
            let file = Path::new(SERVICE_ACCOUNT).join("namespace");
            let namespace = std::fs::read_to_string(file).ok()?;
            (namespace.trim().to_owned(), flags.service.as_str())
        }
    };
    let name = name.to_owned();
    Some(ServiceName { namespace, name })
}

fn show(telemetry: &Telemetry, status: &watch::Receiver<CertificateStatus>) {
    let health = &telemetry.health;
    let current = status.clone();
    health.register_fn("certificate", move || {
        current.borrow().is_ready(SystemTime::now())
    });
    let current = status.clone();
    telemetry.metrics.before_scrape(move |metrics| {
        let end = current.borrow().not_after();
        let end = end.map(|end| end.duration_since(UNIX_EPOCH));
        let end = end.and_then(Result::ok).map(|end| end.as_secs_f64());
        let expiry = &metrics.certificate_expiry_timestamp_seconds;
        expiry.set(["serving"], end);
    });
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rustls::client::verify_server_name;
    use rustls::pki_types::ServerName;
    use rustls::server::ParsedCertificate;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Listening,
    }

    fn flags(dir: &Path, flags: &[&str]) -> Listening {
        let directory = format!("--cert-dir={}", dir.display());
        let words = [&["serve", &directory], flags].concat();
        Line::try_parse_from(words).unwrap().flags
    }

    #[test]
    fn a_directory_without_a_pair_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let flags = flags(dir.path(), &["--service=n/s"]);
        assert!(files(&flags).is_none());
        let pair = in_memory(service(&flags).as_ref()).unwrap();
        let leaf = ParsedCertificate::try_from(&pair.chain()[0]).unwrap();
        let name = ServerName::try_from("s.n.svc").unwrap();
        verify_server_name(&leaf, &name).unwrap();
        assert!(dir.path().read_dir().unwrap().next().is_none());
    }

    /// prometheus-adapter's chart sets both flags if it has a certificate.
    #[test]
    fn files_of_a_pair_take_precedence_over_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tls.crt"), "").unwrap();
        let found = |given: &[&str]| files(&flags(dir.path(), given)).unwrap().certificate;
        assert_eq!(found(&[]), dir.path().join("tls.crt"));
        let pair = ["--tls-cert-file=/c", "--tls-private-key-file=/k"];
        assert_eq!(found(&pair), Path::new("/c"));
    }
}
