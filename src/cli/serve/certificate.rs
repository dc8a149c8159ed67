//! The TLS settings and the serving certificate.

use std::path::Path;
use std::time::{Duration, SystemTime};

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use aggregated_apiserver::certificates::files::Files;
use aggregated_apiserver::certificates::pair::Pair;
use aggregated_apiserver::serve::tls::{ONLY_TLS13, TlsOptions};
use cluster_state::registration::{APISERVICES, RegistrationSettings, ServiceName};
use configuration::flags::SERVICE_ACCOUNT;
use rustls::ALL_VERSIONS;

use crate::app::server::CertificateSource;

use super::Failure;
use super::flags::{Listening, MinVersion};

const HOUR: Duration = Duration::from_secs(3600);

/// Longer than a process runs.
const TEN_YEARS: Duration = Duration::from_secs(3650 * 86_400);

/// The offered TLS settings. Versions before 1.2 are not implemented.
pub(super) fn offer(args: &Listening) -> TlsOptions {
    TlsOptions {
        http2: !args.disable_http2,
        versions: match args.tls_min_version {
            MinVersion::Tls13 => ONLY_TLS13,
            _ => ALL_VERSIONS,
        },
    }
}

/// The files of the flags; without them, the server issues its own certificate.
pub(super) fn default(args: &Listening) -> Result<CertificateSource, Failure> {
    if let Some((cert, key)) = args
        .tls_cert_file
        .clone()
        .zip(args.tls_private_key_file.clone())
    {
        return Ok(CertificateSource::Files(Files::new(cert, key)));
    }
    if let Some(dir) = &args.cert_dir {
        return in_directory(dir, args);
    }
    let Some(service) = service(args) else {
        return in_memory(None, "set --service NAMESPACE/NAME outside of a pod");
    };
    Ok(CertificateSource::Managed(RegistrationSettings {
        service,
        secret: args.certificate_secret.clone(),
        apiservices: APISERVICES.to_vec(),
        take_over: args.take_over,
    }))
}

/// A pair with one of the usual names.
fn in_directory(dir: &Path, args: &Listening) -> Result<CertificateSource, Failure> {
    let pair = |name: &str| {
        Files::new(
            dir.join(format!("{name}.crt")),
            dir.join(format!("{name}.key")),
        )
    };
    for files in [pair("tls"), pair("apiserver")] {
        // If one of the two is missing, the server reports it and waits for it.
        if files.certificate.exists() || files.key.exists() {
            return Ok(CertificateSource::Files(files));
        }
    }
    in_memory(service(args).as_ref(), "remove --cert-dir")
}

/// A pair that lasts as long as the process, as prometheus-adapter makes it.
fn in_memory(service: Option<&ServiceName>, remedy: &str) -> Result<CertificateSource, Failure> {
    let now = SystemTime::now();
    let validity = Validity {
        not_before: now - HOUR,
        not_after: now + TEN_YEARS,
    };
    let of_service = service.map(ServiceName::dns_names);
    let names = of_service.iter().flatten().map(String::as_str);
    let names: Vec<&str> = names.chain(["localhost", "127.0.0.1"]).collect();
    let usage = |error: String| Failure::Usage(format!("--service: {error}"));
    let authority = CertificateAuthority::new("gpu-metrics-apiserver", validity).map_err(usage)?;
    let issued = authority.serving(&names, validity).map_err(usage)?;
    let pair = Pair::issued(issued).map_err(Failure::Failed)?;
    tracing::warn!(
        "made a self-signed certificate, which kube-apiserver cannot verify: {remedy}, and the \
         server issues one that it can verify"
    );
    Ok(CertificateSource::Made(pair))
}

/// The server's Service. A name without a namespace is in the pod's namespace.
fn service(args: &Listening) -> Option<ServiceName> {
    if let Some((namespace, name)) = args.service.split_once('/') {
        return Some(ServiceName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }
    let namespace = std::fs::read_to_string(Path::new(SERVICE_ACCOUNT).join("namespace")).ok()?;
    Some(ServiceName {
        namespace: namespace.trim().to_owned(),
        name: args.service.clone(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rustls::client::verify_server_name;
    use rustls::pki_types::ServerName;
    use rustls::server::ParsedCertificate;

    use super::super::flags::ServeArgs;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn source(dir: &Path, flags: &[&str]) -> CertificateSource {
        let directory = format!("--cert-dir={}", dir.display());
        let words = [&["serve", &directory], flags].concat();
        let line = Line::try_parse_from(words).unwrap();
        default(&line.args.listening).unwrap()
    }

    #[test]
    fn a_directory_without_a_pair_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let CertificateSource::Made(pair) = source(dir.path(), &["--service=n/s"]) else {
            panic!("not made");
        };
        let leaf = ParsedCertificate::try_from(&pair.chain()[0]).unwrap();
        let name = ServerName::try_from("s.n.svc").unwrap();
        verify_server_name(&leaf, &name).unwrap();
        assert!(dir.path().read_dir().unwrap().next().is_none());
    }

    /// prometheus-adapter's chart sets both flags if it has a certificate.
    #[test]
    fn files_of_a_pair_take_precedence_over_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--tls-cert-file=/c", "--tls-private-key-file=/k"];
        let CertificateSource::Files(files) = source(dir.path(), &flags) else {
            panic!("not the files");
        };
        assert_eq!(files.certificate, Path::new("/c"));
    }
}
