//! The files of the demonstration in its directory: kubeconfig, authority, configuration.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;

use aggregated_apiserver::certificates::authority::{
    CertificateAuthority, ExtendedKeyUsagePurpose, Issued, Validity, subject,
};
use aggregated_apiserver::certificates::pair::Pair;
use aggregated_apiserver::serve::tls::resolving;
use apimachinery::time::Timestamp;
use kubectl_gpu_metrics::Failure;
use kubectl_gpu_metrics::check::SAMPLE_HPA;

/// The validity of a demonstration's certificates, longer than it runs.
const VALID_FOR: Duration = Duration::from_secs(7 * 86_400);

/// The allowed difference between the clocks of client and server.
const VALID_BEFORE: Duration = Duration::from_secs(3600);

/// The user name of the demonstration's client certificate.
const CLIENT: &str = "demo";

const CONFIG: &str = "\
# A configuration file of gpu-metrics-apiserver with its defaults.
# Pass it with --config; every key may be left out.
gpu:
  window: 1m
  step: 5s              # the distance of two instants
";

/// The file that marks a directory whose files a demonstration wrote.
const MARK: &str = ".demo";

/// Authority, serving and client certificate.
pub(super) struct DemoCertificates {
    authority: CertificateAuthority,
    serving: Pair,
    client: Issued,
}

impl DemoCertificates {
    pub(super) fn make(now: Timestamp) -> Result<Self, Failure> {
        let now = UNIX_EPOCH + now.since(Timestamp::from_millis(0));
        let validity = Validity {
            not_before: now - VALID_BEFORE,
            not_after: now + VALID_FOR,
        };
        let failed = |error| Failure::Failed(format!("cannot make certificates: {error}"));
        let authority =
            CertificateAuthority::new("gpu-metrics-apiserver demo", validity).map_err(failed)?;
        let serving = authority
            .serving(&["localhost", "127.0.0.1"], validity)
            .and_then(Pair::issued)
            .map_err(failed)?;
        let client = authority
            .sign(
                subject(CLIENT, validity),
                ExtendedKeyUsagePurpose::ClientAuth,
            )
            .map_err(failed)?;
        Ok(Self {
            authority,
            serving,
            client,
        })
    }

    /// TLS settings that require the client certificate.
    pub(super) fn tls(&self) -> Result<Arc<ServerConfig>, Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::Failed(format!("cannot serve TLS: {error}"));
        let mut roots = RootCertStore::empty();
        roots
            .add(self.authority.certificate.clone())
            .map_err(|error| failed(&error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let clients = clients.build().map_err(|error| failed(&error))?;
        let pair = Arc::new(self.serving.clone());
        resolving(pair, clients, rustls::ALL_VERSIONS, true).map_err(|error| failed(&error))
    }

    /// The kubeconfig; `namespace` is the default of commands.
    fn kubeconfig(&self, address: SocketAddr, namespace: &str) -> String {
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: demo\n  \
               cluster:\n    \
                 server: https://{address}\n    \
                 certificate-authority: ca.crt\n\
             users:\n\
             - name: {CLIENT}\n  \
               user:\n    \
                 client-certificate: client.crt\n    \
                 client-key: client.key\n\
             contexts:\n\
             - name: demo\n  \
               context:\n    \
                 cluster: demo\n    \
                 namespace: {namespace}\n    \
                 user: {CLIENT}\n\
             current-context: demo\n"
        )
    }
}

pub(super) struct Directory {
    path: PathBuf,
    /// The temporary directory, which holds a key: dropping it removes the directory.
    /// `None`: the user named a directory.
    _temporary: Option<TempDir>,
}

impl Directory {
    /// Creates the directory if needed. `None` creates a temporary one, removed at the end.
    pub(super) fn prepare(wanted: Option<&Path>) -> Result<Self, Failure> {
        let (path, temporary) = match wanted {
            Some(path) => {
                let mut builder = fs::DirBuilder::new();
                let made = builder.recursive(true).mode(0o700).create(path);
                made.map_err(|error| unwritable(path, &error))?;
                (path.to_owned(), None)
            }
            None => {
                let made = tempfile::Builder::new()
                    .prefix("gpu-metrics-apiserver-demo-")
                    .permissions(Permissions::from_mode(0o700))
                    .tempdir();
                let made = made.map_err(|error| unwritable(&std::env::temp_dir(), &error))?;
                (made.path().to_owned(), Some(made))
            }
        };
        let path = path
            .canonicalize()
            .map_err(|error| unwritable(&path, &error))?;
        Ok(Self {
            path,
            _temporary: temporary,
        })
    }

    /// Writes all files. It overwrites the files of an earlier demonstration, whose
    /// directory has [`MARK`], but no others.
    pub(super) fn write(
        &self,
        identity: &DemoCertificates,
        (address, namespace): (SocketAddr, &str),
    ) -> Result<(), Failure> {
        let mark = "Made by the demonstration of gpu-metrics-apiserver, which writes over the files here.\n";
        let files = [
            (MARK, mark.to_owned()),
            ("ca.crt", identity.authority.certificate_pem()),
            ("client.crt", identity.client.cert.pem()),
            ("client.key", identity.client.signing_key.serialize_pem()),
            ("kubeconfig", identity.kubeconfig(address, namespace)),
            ("config.yaml", CONFIG.to_owned()),
            ("hpa.yaml", SAMPLE_HPA.to_owned()),
        ];
        let mut paths = files.iter().map(|(name, _)| self.path.join(name));
        let in_the_way = paths.find(|path| path.symlink_metadata().is_ok());
        if let (Some(path), false) = (in_the_way, self.path.join(MARK).exists()) {
            return Err(Failure::Failed(format!(
                "{} exists already and was not written by demo: move it away, or set another \
                 directory with --dir",
                path.display()
            )));
        }
        for (name, text) in files {
            let written = write(&self.path, name, &text);
            written.map_err(|error| unwritable(&self.path.join(name), &error))?;
        }
        Ok(())
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }
}

/// Writes a file beside the target and renames it, so that no other user opens a key.
fn write(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let beside = dir.join(format!(".{name}.new"));
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&beside, dir.join(name))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!(
        "cannot write {}: {error}: choose another directory with --dir",
        path.display()
    ))
}
