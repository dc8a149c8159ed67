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

    use tokio::task::JoinSet;

    use super::*;
    use crate::certificates::authority::{Issued, Validity};
    use crate::certificates::{Serving, serving};
    use crate::testing::authority::authority;
    use crate::testing::test_server::validity;

    fn files(folder: &tempfile::TempDir) -> Files {
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        Files { certificate, key }
    }

    /// The certificate and its key, PEM.
    fn pem(issued: &Issued) -> (String, String) {
        (issued.cert.pem(), issued.signing_key.serialize_pem())
    }

    /// Waits until this certificate is in force, with this trouble; empty: none.
    async fn until(serving: &mut Serving, in_force: Option<&Issued>, trouble: &str) {
        let leaf = in_force.map(|it| it.cert.der());
        let found = serving.status.wait_for(|status| {
            let served = status.pair.as_ref().map(|pair| &pair.chain()[0]);
            let reason = status.condition.state().reason();
            let reason = reason.map(ToString::to_string).unwrap_or_default();
            let is_told = reason.contains(trouble) && reason.is_empty() == trouble.is_empty();
            is_told && served == leaf
        });
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        let status = found.expect("never").unwrap();
        assert_eq!(status.is_ready(SystemTime::now()), in_force.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn s102_a_new_pair_is_served_and_a_broken_one_leaves_the_old_one_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder);
        let (publisher, mut serving) = serving();
        let _task = JoinSet::from_iter([run(files.clone(), publisher)]);
        let write = |(certificate, key): &(String, String)| {
            fs::write(&files.certificate, certificate).unwrap();
            fs::write(&files.key, key).unwrap();
        };
        // The files may be written later.
        until(&mut serving, None, "tls.crt").await;
        let authority = authority("test");
        let issue = |validity| authority.serving(&["localhost"], validity).unwrap();
        let [first, second, other] = [(); 3].map(|()| issue(validity()));
        for pair in [&first, &second] {
            write(&pem(pair));
            until(&mut serving, Some(pair), "").await;
        }
        let expired = issue(Validity {
            not_before: SystemTime::UNIX_EPOCH,
            not_after: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        });
        let long = "x".repeat(1024 * 1024 + 1);
        for (pair, words) in [
            (
                (pem(&other).0, pem(&second).1),
                "no certificate with its key: ",
            ),
            (
                ("garbage".to_owned(), pem(&other).1),
                "sent no certificates",
            ),
            ((long, String::new()), "more than 1048576 bytes"),
            (pem(&expired), "expired at 1970-01-01T00:00:01Z"),
        ] {
            write(&pair);
            until(&mut serving, Some(&second), words).await;
        }
        fs::remove_file(&files.key).unwrap();
        until(&mut serving, Some(&second), "tls.key: No such file").await;
        write(&pem(&second));
        until(&mut serving, Some(&second), "").await;
    }

    #[tokio::test]
    async fn garbage_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder);
        let issued = authority("test").serving(&["localhost"], validity());
        let (chain, key) = &pem(&issued.unwrap());
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let chains = ["", "garbage", &chain[..100], broken, key].map(|chain| (chain, &**key));
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let keys = ["", "garbage", broken, chain].map(|key| (&**chain, key));
        for (chain, key) in chains.into_iter().chain(keys) {
            fs::write(&files.certificate, chain).unwrap();
            fs::write(&files.key, key).unwrap();
            let error = files.pair(SystemTime::now()).await.unwrap_err();
            let words = "tls.key: no certificate with its key";
            assert!(error.contains(words), "{error}");
        }
    }
}
