//! A pair in two files, reloaded when their content changes.
//!
//! The files are read on a timer, because inotify does not report a change of the symbolic
//! link by which kubelet updates a mounted Secret
//! (<https://github.com/kubernetes/kubernetes/issues/111947>).

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::pair::Pair;
use super::{Publisher, Trouble};
use crate::x509;
use limits::file;

/// How often the files are read.
const EVERY: Duration = Duration::from_secs(10);

/// The pair's files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The chain, PEM, leaf first.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// Follows the files without end. They need not exist at the start: they may be written later.
pub async fn run(files: Files, publisher: Publisher) {
    loop {
        let read = files.pair(SystemTime::now()).await;
        let trouble = match read {
            Ok(pair) => {
                let served = publisher.pair();
                if served.is_none_or(|served| served.chain() != pair.chain()) {
                    publisher.serve(pair);
                }
                None
            }
            Err(why) => Some(Trouble::Lasting(why)),
        };
        publisher.report(trouble);
        tokio::time::sleep(EVERY).await;
    }
}

impl Files {
    async fn pair(&self, now: SystemTime) -> Result<Pair, String> {
        let (chain, key) = (read(&self.certificate).await?, read(&self.key).await?);
        let (place, place_of_key) = (self.certificate.display(), self.key.display());
        let unusable = |reason: &dyn fmt::Display| {
            format!(
                "{place}, {place_of_key}: no certificate with its key: {reason}: write the \
                 serving certificate, followed by the intermediate certificates, and its key, \
                 not encrypted, as PEM"
            )
        };
        let chain = x509::from_pem(&chain).map_err(|error| unusable(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(&error))?;
        let pair = Pair::new(chain, key).map_err(|error| unusable(&error))?;
        pair.check(now).map_err(|why| format!("{place}: {why}"))?;
        Ok(pair)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    file::read_apart(path).await.map_err(|reason| {
        format!(
            "{}: {reason}: write the serving certificate and its key there, or name other files",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::certificates::authority::{CertificateAuthority, Issued, Validity};
    use crate::certificates::{CertificateStatus, Serving, serving};
    use crate::testing::authority::authority;
    use crate::testing::test_server::validity;

    fn issued(authority: &CertificateAuthority) -> Issued {
        authority.serving(&["localhost"], validity()).unwrap()
    }

    /// A folder with a task that follows its files.
    struct Scene {
        folder: tempfile::TempDir,
        authority: CertificateAuthority,
        serving: Serving,
        _task: tokio::task::JoinSet<()>,
    }

    impl Scene {
        fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (publisher, serving) = serving();
            let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
            let files = Files { certificate, key };
            Self {
                folder,
                authority: authority("test"),
                serving,
                _task: [run(files, publisher)].into_iter().collect(),
            }
        }

        fn write(&self, certificate: &[u8], key: &[u8]) {
            fs::write(self.folder.path().join("tls.crt"), certificate).unwrap();
            fs::write(self.folder.path().join("tls.key"), key).unwrap();
        }

        fn good(&self) -> Issued {
            let issued = issued(&self.authority);
            self.write_pair(&issued);
            issued
        }

        /// The first status that satisfies `wanted`.
        async fn until(
            &mut self,
            wanted: impl Fn(&CertificateStatus) -> bool,
        ) -> CertificateStatus {
            let found = self.serving.status.wait_for(wanted);
            let found = tokio::time::timeout(Duration::from_secs(60), found).await;
            found.expect("never").unwrap().clone()
        }

        fn write_pair(&self, issued: &Issued) {
            let key = issued.signing_key.serialize_pem();
            self.write(issued.cert.pem().as_bytes(), key.as_bytes());
        }

        async fn until_served(&mut self, issued: &Issued) {
            let wanted = issued.cert.der().clone();
            self.until(move |status| {
                let pair = status.pair.as_ref();
                let shown = pair.is_some_and(|pair| pair.chain()[0] == wanted);
                shown && status.condition.state().reason().is_none()
            })
            .await;
        }

        async fn until_failing(&mut self, text: &str) {
            let text = text.to_owned();
            self.until(move |status| {
                let why = status.condition.state().reason();
                status.pair.is_some() && why.is_some_and(|why| why.to_string().contains(&text))
            })
            .await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_are_written_late_are_waited_for() {
        let mut scene = Scene::start();
        let waiting = scene
            .until(|status| {
                let trouble = status.condition.state().reason();
                trouble.is_some_and(|why| why.to_string().contains("tls.crt"))
            })
            .await;
        assert!(!waiting.is_ready(SystemTime::now()));
        let issued = scene.good();
        scene.until_served(&issued).await;
        let status = scene.serving.status.borrow().clone();
        assert!(status.is_ready(SystemTime::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn s102_a_new_pair_is_served_and_a_broken_one_leaves_the_old_one_in_force() {
        let mut scene = Scene::start();
        let first = scene.good();
        scene.until_served(&first).await;
        let second = scene.good();
        scene.until_served(&second).await;
        let other = issued(&scene.authority);
        let key_of_second = second.signing_key.serialize_pem();
        scene.write(other.cert.pem().as_bytes(), key_of_second.as_bytes());
        scene.until_failing("no certificate with its key: ").await;
        let key_of_other = other.signing_key.serialize_pem();
        scene.write(b"garbage", key_of_other.as_bytes());
        scene.until_failing("sent no certificates").await;
        scene.write(&vec![b'x'; 1024 * 1024 + 1], b"");
        scene.until_failing("more than 1048576 bytes").await;
        let over = Validity {
            not_before: SystemTime::UNIX_EPOCH,
            not_after: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        };
        let expired = scene.authority.serving(&["localhost"], over).unwrap();
        scene.write_pair(&expired);
        scene.until_failing("expired at 1970-01-01T00:00:01Z").await;
        fs::remove_file(scene.folder.path().join("tls.key")).unwrap();
        scene.until_failing("tls.key: No such file").await;
        let pair = scene.serving.status.borrow().pair.clone().unwrap();
        assert_eq!(pair.chain()[0], *second.cert.der());
        let status = scene.serving.status.borrow().clone();
        assert!(status.is_ready(SystemTime::now()));
        scene.write_pair(&second);
        scene.until_served(&second).await;
    }

    #[tokio::test]
    async fn garbage_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        let files = Files { certificate, key };
        let issued = issued(&authority("test"));
        let (chain, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
        let (chain, key) = (&*chain, &*key);
        let half = &chain[..100];
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let chains = ["", "garbage", half, broken, key].map(|chain| (chain, key));
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let keys = ["", "garbage", broken, chain].map(|key| (chain, key));
        for (chain, key) in chains.into_iter().chain(keys) {
            fs::write(&files.certificate, chain).unwrap();
            fs::write(&files.key, key).unwrap();
            let error = files.pair(SystemTime::now()).await.unwrap_err();
            let words = "tls.key: no certificate with its key";
            assert!(error.contains(words), "{error}");
        }
    }
}
