//! Updates the trusted authorities when the cluster's ConfigMap or the flags' files change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::telemetry::health::Check;
use aggregated_apiserver::security::trust::{self, Trust, TrustError, TrustStore};
use cluster_state::authentication::Texts;
use limits::file;

/// How often the files are read.
const FILES_EVERY: Duration = Duration::from_secs(10);

/// The reason of the readiness check before any authorities were read.
pub(super) const WAITING: &str = "waiting for the authorities of clients";

/// The flags that replace keys of the ConfigMap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    /// Keys with their values.
    pub texts: Vec<(&'static str, String)>,
    /// Keys with the paths of their values.
    pub files: Vec<(&'static str, PathBuf)>,
}

impl Overlay {
    /// Whether the ConfigMap is not needed, because both authorities are given, as upstream.
    pub(crate) fn is_complete(&self) -> bool {
        let has = |key| self.files.iter().any(|(known, _)| *known == key);
        has(trust::CLIENT_CA) && has(trust::PROXY_CA)
    }

    /// Whether it replaces no key.
    const fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.files.is_empty()
    }

    /// The ConfigMap's data with the flags applied.
    async fn over(&self, under: Option<&BTreeMap<String, String>>) -> Authorities {
        let mut unreadable = Vec::new();
        let mut texts = under.cloned().unwrap_or_default();
        for (key, text) in &self.texts {
            texts.insert((*key).to_owned(), text.clone());
        }
        for (key, path) in &self.files {
            let from = path.clone();
            let read = file::run_blocking(move || file::read(&from)).await;
            match read.and_then(|read| read) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    texts.insert((*key).to_owned(), text);
                }
                Err(reason) => {
                    unreadable.push(format!("{}: {reason}", path.display()));
                    // Without this, the ConfigMap's authority would replace the narrower
                    // one of the flag.
                    texts.remove(*key);
                }
            }
        }
        Authorities { texts, unreadable }
    }
}

/// The authorities of clients in one version of the ConfigMap and the files.
#[derive(PartialEq, Eq)]
struct Authorities {
    /// By the key of the ConfigMap.
    texts: BTreeMap<String, String>,
    /// The files that cannot be read, and why.
    unreadable: Vec<String>,
}

/// Loads each version of the ConfigMap and of the files of `overlay`, which takes precedence.
pub(super) async fn follow(
    mut texts: watch::Receiver<Texts>,
    overlay: Overlay,
    trust: Arc<TrustStore>,
    check: Check,
) {
    let mut loaded: Option<Authorities> = None;
    loop {
        let current = texts.borrow_and_update().clone();
        if current.is_some() || !overlay.is_empty() {
            let next = overlay.over(current.as_deref()).await;
            if loaded.as_ref() != Some(&next) {
                for file in &next.unreadable {
                    tracing::warn!("{file}: what was read of the file before stays in force");
                }
                load(&next.texts, &trust, &check);
                loaded = Some(next);
            }
        }
        tokio::select! {
            // The sender is dropped if the ConfigMap is not read.
            Ok(()) = texts.changed() => {}
            () = tokio::time::sleep(FILES_EVERY), if !overlay.files.is_empty() => {}
            else => return,
        }
    }
}

fn load(texts: &BTreeMap<String, String>, trust: &TrustStore, check: &Check) {
    let problems = trust.load(texts);
    for problem in &problems {
        tracing::warn!("authorities of clients: {problem}");
    }
    if problems.is_empty() {
        tracing::info!("the authorities of clients are loaded");
    }
    check.set(trouble(trust.current().as_deref(), &problems));
}

/// Why the server is not ready: it trusts no authority, or no front proxy although one is
/// configured, so that it would refuse each request through kube-apiserver.
fn trouble(trust: Option<&Trust>, problems: &[TrustError]) -> Option<String> {
    let problem = match trust {
        None => problems.first(),
        Some(trust) if trust.proxy.is_none() || trust.overlap => {
            problems.iter().find(|problem| problem.is_of_front_proxy())
        }
        Some(_) => None,
    };
    let waiting = trust.is_none().then(|| WAITING.to_owned());
    problem.map(TrustError::to_string).or(waiting)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::telemetry::health::{Health, Weight};
    use aggregated_apiserver::testing::authority::authority;
    use aggregated_apiserver::testing::log::logging;

    const CLIENTS: &str = "client-ca-file";
    const PROXY: &str = "requestheader-client-ca-file";

    fn pem() -> String {
        authority("test").certificate_pem()
    }

    fn loaded(trust: &TrustStore, data: &[(&str, &str)]) -> Option<String> {
        let own = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        let data: BTreeMap<String, String> = data.iter().map(own).collect();
        let problems = trust.load(&data);
        trouble(trust.current().as_deref(), &problems)
    }

    #[test]
    fn the_server_is_unready_with_an_invalid_front_proxy_authority_unless_a_former_one_is_valid() {
        let trust = TrustStore::default();
        let (clients, proxy) = (pem(), pem());
        let why = loaded(&trust, &[(CLIENTS, &clients), (PROXY, "broken")]).unwrap();
        assert!(why.starts_with(PROXY), "{why}");
        let good = [(CLIENTS, clients.as_str()), (PROXY, proxy.as_str())];
        assert_eq!(loaded(&trust, &good), None);
        let broken = [(CLIENTS, clients.as_str()), (PROXY, "broken")];
        assert_eq!(loaded(&trust, &broken), None, "what was known is kept");
    }

    #[test]
    fn a_cluster_without_a_front_proxy_is_ready() {
        let trust = TrustStore::default();
        assert_eq!(loaded(&trust, &[(CLIENTS, &pem())]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_file_is_logged_once_and_its_last_content_stays() {
        let (log, _guard) = logging(tracing::Level::WARN);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, pem()).unwrap();
        let overlay = Overlay {
            texts: Vec::new(),
            files: vec![(CLIENTS, path.clone())],
        };
        let trust = Arc::new(TrustStore::default());
        let check = Health::new().register("client-authorities", Weight::Readiness, None);
        let (_, texts) = watch::channel(None);
        let following = tokio::spawn(follow(texts, overlay, Arc::clone(&trust), check));
        tokio::time::sleep(FILES_EVERY / 2).await;
        std::fs::remove_file(&path).unwrap();
        tokio::time::sleep(FILES_EVERY * 10).await;
        following.abort();
        let text = log.text();
        let lines = text.lines().filter(|line| line.contains("ca.crt"));
        assert_eq!(lines.count(), 1, "{text}");
        assert!(trust.current().is_some_and(|trust| trust.clients.is_some()));
    }
}
