//! The trusted authorities of clients: those of the cluster's ConfigMap, and the flags that
//! replace its keys.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::metrics::of_watches;
use super::tasks::Tasks;
use crate::cli::flags::Cluster;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Check;
use aggregated_apiserver::security::trust::{self, Trust, TrustError, TrustStore};
use cluster_state::authentication::{self, Texts};
use cluster_state::client::Client;
use cluster_state::health::WatchRegistry;
use limits::file;

/// How often the files are read.
const FILES_EVERY: Duration = Duration::from_secs(10);

/// The flags as keys of the ConfigMap.
#[derive(Debug, Default)]
struct Replaced {
    texts: BTreeMap<String, String>,
    files: Vec<(&'static str, PathBuf)>,
}

/// The authorities of clients in one version of the ConfigMap and the files.
#[derive(PartialEq, Eq)]
struct Authorities {
    /// By the key of the ConfigMap.
    texts: BTreeMap<String, String>,
    /// The files that cannot be read, and why.
    unreadable: Vec<String>,
}

/// Starts what keeps the authorities up to date.
pub(super) fn start(
    flags: &Cluster,
    client: Client,
    telemetry: &Telemetry,
    tasks: &mut Tasks,
) -> Arc<TrustStore> {
    let store = Arc::new(TrustStore::default());
    let replaced = Replaced::by(flags);
    // As upstream, the ConfigMap is not needed if both authorities are given.
    let is_read = !flags.authentication_skip_lookup && replaced.files.len() < 2;
    if !is_read && replaced.files.is_empty() {
        return store;
    }
    let is_required = !(is_read && flags.authentication_tolerate_lookup_failure);
    let health = &telemetry.health;
    let (sender, texts) = watch::channel(None);
    if is_read {
        let registry = WatchRegistry::default();
        let all = registry.clone();
        if is_required {
            health.register_fn("authentication", move || all.is_ready());
        }
        of_watches(&telemetry.metrics, registry.clone());
        let followed = authentication::follow(client, registry, sender);
        tasks.spawn("authentication ConfigMap", followed);
    }
    let check = match is_required {
        true => health.register("client-authorities", false),
        false => Check::default(),
    };
    let followed = replaced.follow(texts, Arc::clone(&store), check);
    tasks.spawn("authorities of clients", followed);
    store
}

impl Replaced {
    /// A flag for the authority of front proxies replaces all other keys about them too, as
    /// in apiserver (`pkg/server/options/authentication.go`, `ApplyTo`). Keys without a flag
    /// then have apiserver's defaults.
    fn by(flags: &Cluster) -> Self {
        let names = &flags.requestheader_allowed_names;
        let users = &flags.requestheader_username_headers;
        let uids = &flags.requestheader_uid_headers;
        let groups = &flags.requestheader_group_headers;
        let extra = &flags.requestheader_extra_headers_prefix;
        let all = flags.requestheader_client_ca_file.is_some();
        let mut replaced = Self::default();
        for (key, given, default) in [
            (trust::ALLOWED_NAMES, names, ""),
            (trust::USER_HEADERS, users, "x-remote-user"),
            (trust::UID_HEADERS, uids, ""),
            (trust::GROUP_HEADERS, groups, "x-remote-group"),
            (trust::EXTRA_PREFIXES, extra, "x-remote-extra-"),
        ] {
            let default = all.then(|| vec![default.to_owned()]);
            if let Some(mut list) = given.clone().or(default) {
                list.retain(|name| !name.is_empty());
                let text = serde_json::json!(list).to_string();
                replaced.texts.insert(key.to_owned(), text);
            }
        }
        for (key, file) in [
            (trust::CLIENT_CA, &flags.client_ca_file),
            (trust::PROXY_CA, &flags.requestheader_client_ca_file),
        ] {
            let file = file.iter().cloned();
            replaced.files.extend(file.map(|file| (key, file)));
        }
        replaced
    }

    /// The ConfigMap's data with the flags applied.
    async fn over(&self, data: &BTreeMap<String, String>) -> Authorities {
        let mut unreadable = Vec::new();
        let mut texts = data.clone();
        texts.extend(self.texts.clone());
        for (key, path) in &self.files {
            let read = file::read_apart(path).await;
            // Without a removal, the ConfigMap's authority would replace the narrower one of
            // the flag.
            texts.remove(*key);
            match read {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    texts.insert((*key).to_owned(), text);
                }
                Err(reason) => unreadable.push(format!("{}: {reason}", path.display())),
            }
        }
        Authorities { texts, unreadable }
    }

    /// Loads each version of the ConfigMap and of the files.
    async fn follow(self, mut texts: watch::Receiver<Texts>, store: Arc<TrustStore>, check: Check) {
        let mut loaded = None;
        loop {
            let current = texts.borrow_and_update().clone();
            if current.is_some() || !self.files.is_empty() {
                let next = self.over(&current.unwrap_or_default()).await;
                if loaded.as_ref() != Some(&next) {
                    load(&next, &store, &check);
                    loaded = Some(next);
                }
            }
            tokio::select! {
                // The sender is dropped if the ConfigMap is not read.
                Ok(()) = texts.changed() => {}
                () = tokio::time::sleep(FILES_EVERY) => {}
            }
        }
    }
}

fn load(authorities: &Authorities, store: &TrustStore, check: &Check) {
    for file in &authorities.unreadable {
        tracing::warn!("{file}: what was read of the file before stays in force");
    }
    let problems = store.load(&authorities.texts);
    for problem in &problems {
        tracing::warn!("authorities of clients: {problem}");
    }
    if problems.is_empty() {
        tracing::info!("the authorities of clients are loaded");
    }
    check.set(is_ready(store.current().as_deref(), &problems));
}

/// Whether the server trusts an authority, and the front proxy if one is configured. Without it
/// the server would refuse each request through kube-apiserver.
fn is_ready(trust: Option<&Trust>, problems: &[TrustError]) -> bool {
    trust.is_some_and(|trust| {
        let has_proxy = trust.proxy.is_some();
        has_proxy || !problems.iter().any(TrustError::is_of_front_proxy)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use aggregated_apiserver::testing::authority::authority;
    use aggregated_apiserver::testing::log::logging;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Cluster,
    }

    /// The tests of the authorities check the meaning of the keys.
    #[test]
    fn flags_set_keys_of_the_config_map_and_a_front_proxy_file_replaces_all_its_keys() {
        let replaced = |flags: &[&str]| {
            let words = [&["serve"], flags].concat();
            Replaced::by(&Line::try_parse_from(words).unwrap().flags)
        };
        let own = |(key, text): (&str, &str)| (key.to_owned(), text.to_owned());
        let names = replaced(&["--requestheader-allowed-names=front-proxy-client,x"]);
        let wanted = (
            "requestheader-allowed-names",
            r#"["front-proxy-client","x"]"#,
        );
        assert_eq!(names.texts, [wanted].map(own).into());
        let all = replaced(&[
            "--client-ca-file=/users.pem",
            "--requestheader-client-ca-file=/proxies.pem",
            "--requestheader-username-headers=X-Who",
        ]);
        let files = [(CLIENTS, "/users.pem"), (PROXY, "/proxies.pem")];
        assert_eq!(all.files, files.map(|(key, file)| (key, file.into())));
        let texts = [
            ("requestheader-allowed-names", "[]"),
            ("requestheader-username-headers", r#"["X-Who"]"#),
            ("requestheader-uid-headers", "[]"),
            ("requestheader-group-headers", r#"["x-remote-group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["x-remote-extra-"]"#,
            ),
        ];
        assert_eq!(all.texts, texts.map(own).into());
    }

    const CLIENTS: &str = "client-ca-file";
    const PROXY: &str = "requestheader-client-ca-file";

    fn pem() -> String {
        authority("test").certificate_pem()
    }

    fn loaded(trust: &TrustStore, data: &[(&str, &str)]) -> bool {
        let own = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        let data: BTreeMap<String, String> = data.iter().map(own).collect();
        let problems = trust.load(&data);
        is_ready(trust.current().as_deref(), &problems)
    }

    #[test]
    fn the_server_is_unready_with_an_invalid_front_proxy_authority_unless_a_former_one_is_valid() {
        let trust = TrustStore::default();
        let (clients, proxy) = (pem(), pem());
        assert!(!loaded(&trust, &[(CLIENTS, &clients), (PROXY, "broken")]));
        let good = [(CLIENTS, clients.as_str()), (PROXY, proxy.as_str())];
        assert!(loaded(&trust, &good));
        let broken = [(CLIENTS, clients.as_str()), (PROXY, "broken")];
        assert!(loaded(&trust, &broken), "what was known is kept");
    }

    #[test]
    fn a_cluster_without_a_front_proxy_is_ready() {
        let trust = TrustStore::default();
        assert!(loaded(&trust, &[(CLIENTS, &pem())]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_file_is_logged_once_and_its_last_content_stays() {
        let (log, _guard) = logging(tracing::Level::WARN);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, pem()).unwrap();
        let replaced = Replaced {
            files: vec![(CLIENTS, path.clone())],
            ..Replaced::default()
        };
        let trust = Arc::new(TrustStore::default());
        let check = Check::default();
        let (_, texts) = watch::channel(None);
        let following = tokio::spawn(replaced.follow(texts, Arc::clone(&trust), check));
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
