//! The ConfigMap `kube-system/extension-apiserver-authentication`: the authorities of
//! client certificates and of front proxies.
//!
//! The last good state stays in force while the ConfigMap cannot be read or is deleted:
//! kube-apiserver writes it again within moments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::watch;

use super::client::Client;
use super::error::CallError;
use super::health::{Need, WatchRegistry};
use super::rights;

/// The ConfigMap's name, also that of its entry on the registry.
pub const NAME: &str = "extension-apiserver-authentication";

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const ABSENT: &str = "the ConfigMap kube-system/extension-apiserver-authentication, which \
                      kube-apiserver makes: check that it runs with --client-ca-file or \
                      --requestheader-client-ca-file";

/// The time between two reads. Some clusters replace the authorities by a restart of
/// kube-apiserver: until the server has read the new ones, it authenticates no request that
/// kube-apiserver proxies.
const EVERY: Duration = Duration::from_secs(5);

/// The pause after a failure. The rights of a new server may be seconds younger than its pod.
const PAUSE: Duration = Duration::from_secs(1);

/// The data of the ConfigMap; `None`: not read yet.
pub type Texts = Option<Arc<BTreeMap<String, String>>>;

/// Reads the ConfigMap every few seconds, and sends its data when they have changed. Spawn it
/// as a task: it ends only when the task is aborted.
pub async fn follow(client: Client, registry: WatchRegistry, texts: watch::Sender<Texts>) {
    let reporter = registry.enter(NAME, Need::Required);
    loop {
        let pause = match client.object::<ConfigMap>(PATH).await {
            Ok(map) => {
                let data = Some(Arc::new(map.data.unwrap_or_default()));
                texts.send_if_modified(|known| {
                    let changed = *known != data;
                    if changed {
                        *known = data;
                    }
                    changed
                });
                reporter.well();
                EVERY
            }
            Err(error) => {
                let error = match error {
                    CallError::NotFound(_) => CallError::NotFound(ABSENT.to_owned()),
                    error => error.without_right(rights::AUTHENTICATION),
                };
                reporter.failed(&error);
                PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}
