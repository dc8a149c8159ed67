//! `certs`: a development certificate, its key, and the authority that signed it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use aggregated_apiserver::certificates::managed::service_names;
use aggregated_apiserver::certificates::managed::store::ServiceName;
use aggregated_apiserver::x509::{self, Certificate};
use kubectl_gpu_metrics::Failure;

const HOUR: Duration = Duration::from_secs(3600);

/// Flags of `certs`.
#[derive(Debug, Args)]
pub struct CertsArgs {
    /// Directory for ca.crt, tls.crt and tls.key; created if it does not exist
    #[arg(long)]
    dir: PathBuf,
    /// DNS name or IP address of the server [default: localhost, 127.0.0.1 and ::1
    /// without --service]
    #[arg(long = "host")]
    hosts: Vec<String>,
    /// Service through which kube-apiserver reaches the server
    #[arg(long, requires = "namespace")]
    service: Option<String>,
    /// Namespace of the Service
    #[arg(long, requires = "service")]
    namespace: Option<String>,
    /// Number of days that the certificates are valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

/// Makes a self-signed pair in a directory that has none: for the Service if there is one,
/// and for this machine. A `ca.crt` of this program is replaced, any other is kept.
///
/// # Errors
/// As [`run`].
pub(super) fn make_for(
    dir: &Path,
    service: Option<ServiceName>,
    now: SystemTime,
) -> Result<(), Failure> {
    let (service, namespace) = service
        .map(|service| (service.name, service.namespace))
        .unzip();
    let args = CertsArgs {
        dir: dir.to_owned(),
        hosts: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
        service,
        namespace,
        days: 365,
        force: false,
    };
    let is_foreign = fs::read(dir.join(AUTHORITY)).is_ok_and(|text| !is_development(&text));
    if is_foreign {
        let dir = dir.display();
        tracing::warn!(%dir, "{AUTHORITY} is kept: it is not the authority of the new certificate");
    }
    make(&args, is_foreign, now).map(|_| ())
}

const AUTHORITY: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The common name of the authorities that this command makes.
const DEVELOPMENT: &str = "gpu-metrics-apiserver development authority";

fn is_development(pem: &[u8]) -> bool {
    let certificates = x509::from_pem(pem).unwrap_or_default();
    let read = certificates.first().map(Certificate::read);
    read.is_some_and(|read| read.is_ok_and(|it| it.subject() == format!("CN={DEVELOPMENT}")))
}

/// Makes an authority, a serving certificate and its key. The authority's key is not
/// stored: it signs only this certificate.
///
/// # Errors
/// When a name is no DNS name, a file already exists, or the directory cannot be written.
pub(crate) fn run(args: &CertsArgs, now: SystemTime) -> Result<(), Failure> {
    let files = [AUTHORITY, KEY, CERTIFICATE].map(|name| args.dir.join(name));
    if let Some(path) = files.iter().find(|path| path.exists() && !args.force) {
        return Err(Failure::Usage(format!(
            "{} exists already: set another directory, or overwrite it with --force",
            path.display()
        )));
    }
    let subjects = make(args, false, now)?.join(", ");
    let dir = args.dir.display();
    // A closed output is no error, because the files are written.
    let told = writeln!(
        io::stdout(),
        "{dir}/tls.crt and tls.key: for {subjects}, {} days\n{dir}/ca.crt: for clients to trust",
        args.days
    );
    match told {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Writes the files. Returns the names and addresses of the certificate.
fn make(args: &CertsArgs, keep_authority: bool, now: SystemTime) -> Result<Vec<String>, Failure> {
    let (names, addresses) = subjects(args);
    let validity = Validity {
        not_before: now - HOUR,
        not_after: now + HOUR * 24 * u32::from(args.days),
    };
    let usage =
        |error: String| Failure::Usage(format!("{error}: name others with --host or --service"));
    let authority = CertificateAuthority::new(DEVELOPMENT, validity).map_err(usage)?;
    let dns: Vec<&str> = names.iter().map(String::as_str).collect();
    let pair = authority
        .serving(&dns, &addresses, validity)
        .map_err(usage)?;
    fs::create_dir_all(&args.dir).map_err(|error| unwritable(&args.dir, &error))?;
    // The certificate is written last: if it exists, all files exist.
    for (name, text, mode) in [
        (AUTHORITY, authority.certificate_pem(), 0o644),
        (KEY, pair.key_pem.clone(), 0o600),
        (CERTIFICATE, pair.certificate_pem.clone(), 0o644),
    ] {
        if name == AUTHORITY && keep_authority {
            continue;
        }
        let written = write(&args.dir, name, &text, mode);
        written.map_err(|error| unwritable(&args.dir.join(name), &error))?;
    }
    let addresses = addresses.iter().map(ToString::to_string);
    Ok(names.into_iter().chain(addresses).collect())
}

fn subjects(args: &CertsArgs) -> (Vec<String>, Vec<IpAddr>) {
    let mut names = Vec::new();
    let mut addresses = Vec::new();
    if let (Some(name), Some(namespace)) = (&args.service, &args.namespace) {
        names.extend(service_names(&ServiceName {
            namespace: namespace.clone(),
            name: name.clone(),
        }));
    }
    let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let hosts = if args.hosts.is_empty() && names.is_empty() {
        &local[..]
    } else {
        &args.hosts[..]
    };
    for host in hosts {
        match host.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => names.push(host.clone()),
        }
    }
    (names, addresses)
}

/// Writes a file beside the target and renames it. A reader of the target thus finds the
/// old or the new text as a whole, and no other process has opened the new file.
pub(super) fn write(dir: &Path, name: &str, text: &str, mode: u32) -> io::Result<()> {
    let beside = dir.join(format!(".{name}.new"));
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, dir.join(name))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!(
        "{}: {error}: name a directory that can be written with --dir",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::*;
    use aggregated_apiserver::certificates::pair::Pair;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CertsArgs,
    }

    fn certs(dir: &Path, more: &[&str]) -> Result<(), Failure> {
        let line = ["certs", "--dir", dir.to_str().unwrap()];
        let line = Line::try_parse_from(line.iter().chain(more)).unwrap();
        run(&line.args, SystemTime::now())
    }

    fn pair(dir: &Path) -> Pair {
        let read = |name: &str| fs::read(dir.join(name)).unwrap();
        let (chain, key) = (read("tls.crt"), read("tls.key"));
        let pair = Pair::read((&chain, "tls.crt"), (&key, "tls.key")).unwrap();
        pair.check(SystemTime::now()).unwrap();
        pair
    }

    #[test]
    fn the_key_of_a_pair_is_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new");
        // Files of an interrupted attempt are overwritten.
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(".tls.key.new"), "half a k").unwrap();
        certs(&dir, &[]).unwrap();
        assert_eq!(pair(&dir).names(), ["localhost"]);
        let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("tls.key"), 0o600);
        let files = fs::read_dir(&dir).unwrap().count();
        assert_eq!(files, 3, "no key of the authority");
    }

    #[test]
    fn a_pair_for_a_service_has_the_name_that_kube_apiserver_verifies() {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--service=s", "--namespace=n", "--host=extra.example"];
        certs(dir.path(), &flags).unwrap();
        let names = ["s.n.svc", "s.n.svc.cluster.local", "s.n", "extra.example"];
        assert_eq!(pair(dir.path()).names(), names);
    }

    #[test]
    fn existing_files_are_overwritten_only_with_force() {
        let dir = tempfile::tempdir().unwrap();
        certs(dir.path(), &[]).unwrap();
        let before = fs::read(dir.path().join("tls.key")).unwrap();
        let error = certs(dir.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        assert_eq!(fs::read(dir.path().join("tls.key")).unwrap(), before);
        certs(dir.path(), &["--force"]).unwrap();
        assert_ne!(fs::read(dir.path().join("tls.key")).unwrap(), before);
        pair(dir.path());
    }

    #[test]
    fn a_pair_that_is_made_again_has_a_new_authority() {
        let dir = tempfile::tempdir().unwrap();
        make_for(dir.path(), None, SystemTime::now()).unwrap();
        let left = fs::read(dir.path().join(AUTHORITY)).unwrap();
        for name in [CERTIFICATE, KEY] {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        make_for(dir.path(), None, SystemTime::now()).unwrap();
        assert_ne!(fs::read(dir.path().join(AUTHORITY)).unwrap(), left);
        pair(dir.path());
    }

    #[test]
    fn an_invalid_name_is_rejected_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let error = certs(dir.path(), &["--host", "né"]).unwrap_err();
        assert!(error.to_string().contains("né"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
