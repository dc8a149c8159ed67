//! A development certificate, its key, and the authority that signed it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use aggregated_apiserver::certificates::managed::service_names;
use aggregated_apiserver::certificates::managed::store::ServiceName;
use aggregated_apiserver::x509::{self, Certificate};

use super::Failure;

const HOUR: Duration = Duration::from_secs(3600);

/// The names and the validity of a pair, and where it is written.
#[derive(Debug)]
struct CertsArgs {
    dir: PathBuf,
    /// DNS names or IP addresses of the server.
    hosts: Vec<String>,
    service: Option<String>,
    namespace: Option<String>,
    days: u16,
}

/// Makes a self-signed pair in a directory that has none: for the Service if there is one,
/// and for this machine. A `ca.crt` of this program is replaced, any other is kept.
///
/// # Errors
/// When the directory cannot be written.
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

/// The common name of the authorities that are made here.
const DEVELOPMENT: &str = "gpu-metrics-apiserver development authority";

fn is_development(pem: &[u8]) -> bool {
    let certificates = x509::from_pem(pem).unwrap_or_default();
    let read = certificates.first().map(Certificate::read);
    read.is_some_and(|read| read.is_ok_and(|it| it.subject() == format!("CN={DEVELOPMENT}")))
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
fn write(dir: &Path, name: &str, text: &str, mode: u32) -> io::Result<()> {
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
    use super::*;
    use aggregated_apiserver::certificates::pair::Pair;

    fn pair(dir: &Path) -> Pair {
        let read = |name: &str| fs::read(dir.join(name)).unwrap();
        let (chain, key) = (read("tls.crt"), read("tls.key"));
        let pair = Pair::read((&chain, "tls.crt"), (&key, "tls.key")).unwrap();
        pair.check(SystemTime::now()).unwrap();
        pair
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
}
