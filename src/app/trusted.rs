//! Keeps what is believed of clients in step with the cluster.

use std::sync::Arc;

use tokio::sync::watch;

use crate::cluster::authentication::Texts;
use crate::security::trust::{Trust, TrustError, TrustStore};
use crate::telemetry::health::{Check, State};

/// Loads each state of the ConfigMap; ends with its sender.
pub(super) async fn follow(
    mut texts: watch::Receiver<Texts>,
    trust: Arc<TrustStore>,
    check: Check,
) {
    loop {
        let current = texts.borrow_and_update().clone();
        if let Some(texts) = current {
            let problems = trust.load(&texts);
            for problem in &problems {
                tracing::warn!("ConfigMap extension-apiserver-authentication: {problem}");
            }
            check.set(state(trust.current().as_deref(), &problems));
        }
        if texts.changed().await.is_err() {
            return;
        }
    }
}

/// Ready is who believes somebody, and a front proxy where one should be: what
/// comes through kube-apiserver would else be refused, all of it.
fn state(trust: Option<&Trust>, problems: &[TrustError]) -> State {
    let reason = match trust {
        None => problems.first(),
        Some(trust) if trust.proxy.is_none() => {
            problems.iter().find(|problem| problem.is_of_front_proxy())
        }
        Some(_) => return State::Ok,
    };
    match (trust, reason) {
        (_, Some(problem)) => State::Failed(problem.to_string()),
        (Some(_), None) => State::Ok,
        (None, None) => State::Waiting("authorities of clients".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::certificates::authority::{Authority, Validity};

    const CLIENTS: &str = "client-ca-file";
    const PROXY: &str = "requestheader-client-ca-file";

    fn authority() -> String {
        let now = SystemTime::now();
        let validity = Validity {
            not_before: now - Duration::from_secs(3600),
            not_after: now + Duration::from_secs(3600),
        };
        Authority::new("test", validity).unwrap().certificate_pem()
    }

    fn loaded(trust: &TrustStore, data: &[(&str, &str)]) -> State {
        let own = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        let data: BTreeMap<String, String> = data.iter().map(own).collect();
        let problems = trust.load(&data);
        state(trust.current().as_deref(), &problems)
    }

    #[test]
    fn a_broken_authority_of_the_front_proxy_is_not_ready_until_one_was_known() {
        let trust = TrustStore::new(false);
        let (clients, proxy) = (authority(), authority());
        let State::Failed(why) = loaded(&trust, &[(CLIENTS, &clients), (PROXY, "broken")]) else {
            panic!("ready");
        };
        assert!(why.starts_with(PROXY), "{why}");
        let good = [(CLIENTS, clients.as_str()), (PROXY, proxy.as_str())];
        assert_eq!(loaded(&trust, &good), State::Ok);
        let broken = [(CLIENTS, clients.as_str()), (PROXY, "broken")];
        assert_eq!(loaded(&trust, &broken), State::Ok, "what was known is kept");
    }

    #[test]
    fn a_cluster_without_a_front_proxy_is_ready() {
        let trust = TrustStore::new(false);
        assert_eq!(loaded(&trust, &[(CLIENTS, &authority())]), State::Ok);
    }
}
