//! The TLS settings and the serving certificates.

use std::path::Path;
use std::time::SystemTime;

use aggregated_apiserver::certificates::files::Files;
use aggregated_apiserver::certificates::managed;
use aggregated_apiserver::certificates::managed::store::ServiceName;
use aggregated_apiserver::serve::tls_options::{ONLY_TLS13, TlsOptions};
use configuration::flags::SERVICE_ACCOUNT;

use crate::app::server::CertificateSource;

use super::flags::{Listening, MinVersion};
use super::{Failure, certs};

/// The offered TLS settings. Versions before 1.2 are not implemented.
pub(super) fn offer(args: &Listening) -> Result<TlsOptions, Failure> {
    let mut offer = TlsOptions {
        http2: !args.disable_http2,
        ..TlsOptions::default()
    };
    if args.tls_min_version == MinVersion::Tls13 {
        offer.versions = ONLY_TLS13;
    }
    if !args.tls_cipher_suites.is_empty() {
        let left_out = offer.choose(&args.tls_cipher_suites);
        let left_out =
            left_out.map_err(|error| Failure::Usage(format!("--tls-cipher-suites: {error}")))?;
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            tracing::warn!("--tls-cipher-suites: not supported, and ignored: {names}");
        }
    }
    Ok(offer)
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
    let service = service(args).ok_or_else(|| {
        Failure::Usage(
            "the namespace of this server is unknown: outside of a pod set --service \
             NAMESPACE/NAME, or a certificate with --tls-cert-file and --tls-private-key-file or \
             --cert-dir"
                .to_owned(),
        )
    })?;
    let mut settings = managed::ManagedSettings::new(service);
    settings.take_over = args.take_over;
    Ok(CertificateSource::Managed(
        settings,
        args.certificate_secret.clone(),
    ))
}

/// A pair with one of the usual names. If there is none, a self-signed one is made, as
/// prometheus-adapter does.
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
    certs::make_for(dir, service(args), SystemTime::now())?;
    tracing::warn!(
        dir = %dir.display(),
        "made a self-signed certificate: kube-apiserver cannot verify it; remove --cert-dir, and \
         the server issues one that kube-apiserver can verify"
    );
    Ok(CertificateSource::Files(pair("tls")))
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

    use super::super::flags::ServeArgs;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    /// The files of the serving certificate.
    fn files(dir: &Path, flags: &[&str]) -> Files {
        let directory = format!("--cert-dir={}", dir.display());
        let words = [&["serve", &directory], flags].concat();
        let line = Line::try_parse_from(words).unwrap();
        match default(&line.args.listening) {
            Ok(CertificateSource::Files(files)) => files,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_with_only_an_authority_gets_a_pair() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.crt"), "another").unwrap();
        for _ in 0..2 {
            files(dir.path(), &["--service=n/s"]);
            assert!(dir.path().join("tls.crt").exists());
        }
        let kept = std::fs::read(dir.path().join("ca.crt")).unwrap();
        assert_eq!(kept, b"another");
    }

    /// prometheus-adapter's chart sets both flags if it has a certificate.
    #[test]
    fn files_of_a_pair_take_precedence_over_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--tls-cert-file=/c", "--tls-private-key-file=/k"];
        let files = files(dir.path(), &flags);
        assert_eq!(files.certificate, Path::new("/c"));
        assert!(dir.path().read_dir().unwrap().next().is_none());
    }
}
