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

/// The pause between two reads. It is short because many clusters replace the authorities by
/// a restart of kube-apiserver: until the server has read the new ones, it authenticates no
/// request that kube-apiserver proxies. The rights of a new server may be seconds younger than
/// its pod.
const PAUSE: Duration = Duration::from_secs(2);

/// The data of the ConfigMap; `None`: not read yet.
pub type Texts = Option<Arc<BTreeMap<String, String>>>;

/// Reads the ConfigMap every two seconds, and sends its data when they have changed. Spawn it
/// as a task: it ends only when the task is aborted.
pub async fn follow(client: Client, registry: WatchRegistry, texts: watch::Sender<Texts>) {
    let reporter = registry.enter(NAME, Need::Required);
    loop {
        match client.object::<ConfigMap>(PATH).await {
            Ok(map) => {
                let data = Some(Arc::new(map.data.unwrap_or_default()));
                texts.send_if_modified(|known| {
                    let changed = *known != data;
                    *known = data;
                    changed
                });
                reporter.well();
            }
            Err(CallError::NotFound(_)) => {
                reporter.failed(&CallError::NotFound(ABSENT.to_owned()));
            }
            Err(error) => reporter.failed(&error.without_right(rights::AUTHENTICATION)),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
